/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of methods, and the one method that needs no secret: the kernel identifies the user
 * at the other end of a Unix socket. */
#include "broker/auth.h"

#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct crn_auth_ops *const builtin[] = {
    &crn_auth_peer,
    &crn_auth_key,
    &crn_auth_munge,
};

const struct crn_auth_ops *crn_auth_by_method(unsigned method)
{
    size_t i;

    for (i = 0; i < sizeof(builtin) / sizeof(builtin[0]); i++)
        if (builtin[i]->method == method)
            return builtin[i];
    return NULL;
}

const struct crn_auth_ops *crn_auth_by_name(const char *name)
{
    size_t i;

    for (i = 0; i < sizeof(builtin) / sizeof(builtin[0]); i++)
        if (strcmp(builtin[i]->name, name) == 0)
            return builtin[i];
    return NULL;
}

void crn_auth_transcript(const struct crn_auth_talk *talk, const char *who, struct crn_buf *b)
{
    struct crn_bp_msg msg = {.type = CRN_BP_HELLO};

    crn_buf_str(b, "cairn-broker login");
    crn_buf_str(b, who);
    msg.u.hello = talk->hello;
    crn_bp_encode(&msg, b);
    msg.type = CRN_BP_CHALLENGE;
    msg.u.challenge = talk->challenge;
    crn_bp_encode(&msg, b);
}

void crn_auth_user_name(uid_t uid, char *user)
{
    struct passwd entry, *found = NULL;
    char *buf = malloc(65536);

    if (buf == NULL || getpwuid_r(uid, &entry, buf, 65536, &found) != 0)
        found = NULL;
    if (found != NULL && strlen(found->pw_name) < CRN_BP_NAME)
        (void)snprintf(user, CRN_BP_NAME, "%s", found->pw_name);
    else
        (void)snprintf(user, CRN_BP_NAME, "#%u", (unsigned)uid);
    free(buf);
}

/* Is the user in a list with commas or blanks between the names? */
static int auth_is_listed(const char *list, const char *user)
{
    size_t len = strlen(user);
    size_t n;

    for (list += strspn(list, " ,"); *list != '\0'; list += n + strspn(list + n, " ,")) {
        n = strcspn(list, " ,");
        if (n == len && memcmp(list, user, n) == 0)
            return 1;
    }
    return 0;
}

cairn_err crn_auth_check_broker(const struct crn_auth_config *cfg, uid_t uid,
                                struct crn_errinfo *ei)
{
    char user[CRN_BP_NAME];

    if (uid == 0 || uid == geteuid())
        return CAIRN_OK;
    crn_auth_user_name(uid, user);
    if (auth_is_listed(cfg->broker_users, user))
        return CAIRN_OK;
    return crn_fail(ei, CAIRN_EPERM, 0,
                    "the broker runs as %s, which is not trusted: if it should be, set broker_user",
                    user);
}

static cairn_err auth_introduce(const struct crn_auth_config *cfg, char *user,
                                struct crn_errinfo *ei)
{
    (void)cfg;
    (void)ei;
    user[0] = '\0'; /* the kernel tells it */
    return CAIRN_OK;
}

static cairn_err auth_prove(const struct crn_auth_config *cfg, const struct crn_auth_talk *talk,
                            struct crn_bp_proof *ret, struct crn_errinfo *ei)
{
    (void)cfg;
    (void)talk;
    (void)ei;
    ret->len = 0;
    return CAIRN_OK;
}

static cairn_err auth_verify(const struct crn_auth_config *cfg, const struct crn_auth_talk *talk,
                             const struct crn_bp_proof *proof, char *ret_user,
                             struct crn_bp_proof *ret_back, struct crn_errinfo *ei)
{
    (void)cfg;
    (void)proof;
    if (!talk->is_local)
        return crn_fail(ei, CAIRN_EPERM, 0, "login by peer works over a Unix socket only");
    crn_auth_user_name(talk->uid, ret_user);
    ret_back->len = 0;
    return CAIRN_OK;
}

/* Any user may have made the socket, so ask the kernel which user listens. */
static cairn_err auth_confirm(const struct crn_auth_config *cfg, const struct crn_auth_talk *talk,
                              const struct crn_bp_proof *back, struct crn_errinfo *ei)
{
    (void)back;
    if (!talk->is_local)
        return crn_fail(ei, CAIRN_EPERM, 0,
                        "the kernel does not report which user runs the broker");
    return crn_auth_check_broker(cfg, talk->uid, ei);
}

const struct crn_auth_ops crn_auth_peer = {
    .method = CRN_AUTH_PEER,
    .name = "peer",
    .introduce = auth_introduce,
    .prove = auth_prove,
    .verify = auth_verify,
    .confirm = auth_confirm,
};
