/* SPDX-License-Identifier: BSD-3-Clause */
/* usage: make_files DIRECTORY */
#include "make.h"

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    make_files(argv[1]);
    return 0;
}
