# Completion of cairn(1) for bash. The program itself knows what may follow.
_cairn() {
    local cur prev words cword
    if declare -F _init_completion >/dev/null; then
        _init_completion -n @= || return
    else
        words=("${COMP_WORDS[@]}") cword=$COMP_CWORD cur=${COMP_WORDS[COMP_CWORD]}
    fi
    mapfile -t COMPREPLY < <("${words[0]}" help --complete -- "${words[@]:1:cword}" 2>/dev/null)
    if declare -F __ltrim_colon_completions >/dev/null; then
        __ltrim_colon_completions "$cur"
    fi
}
# What it does not know are files; names end where the user says.
complete -o default -o nospace -F _cairn cairn
