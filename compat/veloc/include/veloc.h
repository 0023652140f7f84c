/* SPDX-License-Identifier: BSD-3-Clause */
/* For programs that are built in VELOC's source tree and include "include/veloc.h". */
#include "../veloc.h"
