/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuzz.h"

FUZZ_DECODER(parity)
