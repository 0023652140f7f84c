/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses "host", "host:port", "[v6]:port", "unix:/path". Pure. */
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

#endif
