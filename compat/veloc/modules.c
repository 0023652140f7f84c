/* SPDX-License-Identifier: BSD-3-Clause */
/* libveloc-modules, for projects that link it beside libveloc-client: Cairn has no use for it. */
extern const char veloc_modules_are_in_cairn[];

const char veloc_modules_are_in_cairn[] = "libveloc-client";
