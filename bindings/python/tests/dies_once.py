# SPDX-License-Identifier: BSD-3-Clause
"""Runs a program in this process, which kills itself as soon as it has printed a text, but only once.

usage: dies_once.py FLAG TEXT PROGRAM [ARGUMENT...]    FLAG: a file that is there after the death"""
import builtins
import os
import runpy
import signal
import sys

flag, text, program = sys.argv[1:4]
sys.argv = sys.argv[3:]
sys.path[0] = os.path.dirname(program)
real_print = builtins.print


def print_and_die(*words, **options):
    real_print(*words, **options)
    if text in " ".join(map(str, words)) and not os.path.exists(flag):
        open(flag, "x").close()
        sys.stdout.flush()
        os.kill(os.getpid(), signal.SIGKILL)


builtins.print = print_and_die
runpy.run_path(program, run_name="__main__")
