/* SPDX-License-Identifier: BSD-3-Clause */
#include "broker/address.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static cairn_err parse_unix(const char *path, struct crn_address *ret, struct crn_errinfo *ei)
{
    ret->is_unix = 1;
    ret->un.sun_family = AF_UNIX;
    if (path[0] != '/' || strlen(path) >= sizeof(ret->un.sun_path))
        return crn_fail(ei, CAIRN_ECONFIG, 0,
                        "socket '%s': an absolute path of less than %zu bytes is needed", path,
                        sizeof(ret->un.sun_path));
    memcpy(ret->un.sun_path, path, strlen(path) + 1);
    return CAIRN_OK;
}

cairn_err crn_address_parse(const char *text, const char *default_port, struct crn_address *ret,
                            struct crn_errinfo *ei)
{
    const char *host = text;
    const char *end, *port = default_port;
    size_t n;

    memset(ret, 0, sizeof(*ret));
    if (strncmp(text, "unix:", 5) == 0)
        return parse_unix(text + 5, ret, ei);
    if (text[0] == '[') { /* IPv6 */
        host = text + 1;
        end = strchr(host, ']');
        if (end == NULL || (end[1] != '\0' && end[1] != ':'))
            return crn_fail(ei, CAIRN_ECONFIG, 0, "address '%s' is not [v6]:port", text);
        if (end[1] == ':')
            port = end + 2;
    } else {
        end = strrchr(text, ':');
        if (end == NULL)
            end = text + strlen(text);
        else if (memchr(text, ':', (size_t)(end - text)) != NULL)
            return crn_fail(ei, CAIRN_ECONFIG, 0, "address '%s': write [v6]:port", text);
        else
            port = end + 1;
    }
    n = (size_t)(end - host);
    if (n >= sizeof(ret->host) || strlen(port) >= sizeof(ret->port) || port[0] == '\0' ||
        strspn(port, "0123456789") != strlen(port))
        return crn_fail(ei, CAIRN_ECONFIG, 0, "address '%s' is not host:port", text);
    memcpy(ret->host, host, n);
    memcpy(ret->port, port, strlen(port) + 1);
    return CAIRN_OK;
}

int crn_address_next(const char **at, char *item, size_t size)
{
    size_t n;

    *at += strspn(*at, " ,");
    n = strcspn(*at, " ,");
    if (n == 0)
        return 0;
    (void)snprintf(item, size, "%.*s", (int)n, *at);
    *at += n;
    return 1;
}

cairn_err crn_address_check(const char *list, unsigned *ret_n, struct crn_errinfo *ei)
{
    struct crn_address address;
    char text[sizeof(address.host) + sizeof(address.port) + 8];
    cairn_err rc = CAIRN_OK;

    for (*ret_n = 0; rc == CAIRN_OK && crn_address_next(&list, text, sizeof(text)); ++*ret_n)
        rc = crn_address_parse(text, CRN_BROKER_PORT, &address, ei);
    return rc;
}
