# Completion of cairn(1) for fish. The program itself knows what may follow.
function __cairn_complete
    set -l words (commandline -opc)
    cairn help --complete -- $words[2..-1] (commandline -ct) 2>/dev/null
end
complete -c cairn -a '(__cairn_complete)'
