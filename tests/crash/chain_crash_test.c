/* SPDX-License-Identifier: BSD-3-Clause */
/* The same with versions that were encoded against older ones. */
#define CRASH_CHAINS
#include "store_crash_test.c" // NOLINT(bugprone-suspicious-include): one test, two programs
