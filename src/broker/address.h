/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses "host", "host:port", "[v6]:port", "unix:/path", and lists of them. Pure. */
#ifndef CRN_BROKER_ADDRESS_H
#define CRN_BROKER_ADDRESS_H

#include <sys/un.h>
#include "base/err.h"

#define CRN_BROKER_PORT "7735"

struct crn_address {
    int is_unix;
    struct sockaddr_un un; /* if is_unix */
    char host[256];        /* empty: any address (to listen) */
    char port[16];
};

CAIRN_CHECKED cairn_err crn_address_parse(const char *text, const char *default_port,
                                          struct crn_address *ret, struct crn_errinfo *ei);
/* Parses all addresses of a list. An empty list is not an error. */
CAIRN_CHECKED cairn_err crn_address_check(const char *list, unsigned *ret_n,
                                          struct crn_errinfo *ei);
/* The next item of a list (commas or blanks in between), advancing *at; 0 at the end. Long items
 * are truncated. */
int crn_address_next(const char **at, char *item, size_t size);

#endif
