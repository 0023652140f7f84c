/* SPDX-License-Identifier: BSD-3-Clause */
/* Login by MUNGE: the local munged signs the login for this user, the broker's munged verifies it.
 * MUNGE refuses replayed credentials, and the transcript inside makes a credential worthless for
 * any other login. MUNGE identifies users only, so the broker does not prove itself. An impostor
 * could make jobs wait, but at most for max_wait.
 *
 * libmunge talks to munged over a Unix socket and waits for the answer, usually a millisecond.
 * If munged is down, libmunge retries for seconds, which a job must not wait for. Hence the
 * socket is probed first. */
#include "broker/auth.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static cairn_err auth_munge_introduce(const struct crn_auth_config *cfg, char *user,
                                      struct crn_errinfo *ei)
{
    (void)cfg;
    (void)ei;
    user[0] = '\0'; /* the credential tells it */
    return CAIRN_OK;
}

#ifdef CRN_HAVE_MUNGE
#include <dlfcn.h>
#include <munge.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>

struct munge {
    __typeof__(munge_encode) *encode;
    __typeof__(munge_decode) *decode;
    __typeof__(munge_strerror) *strerror;
    __typeof__(munge_ctx_create) *ctx_create;
    __typeof__(munge_ctx_destroy) *ctx_destroy;
    __typeof__(munge_ctx_set) *ctx_set;
    __typeof__(munge_ctx_get) *ctx_get;
};

/* Never unloaded. Two threads may race here; both load the same. */
static cairn_err auth_munge_load(struct munge *m, struct crn_errinfo *ei)
{
    void *lib = dlopen("libmunge.so.2", RTLD_NOW | RTLD_LOCAL);

    if (lib == NULL)
        return crn_fail(ei, CAIRN_ENOTSUP, 0, "login by MUNGE needs libmunge: %s", dlerror());
    m->encode = (__typeof__(m->encode))dlsym(lib, "munge_encode");
    m->decode = (__typeof__(m->decode))dlsym(lib, "munge_decode");
    m->strerror = (__typeof__(m->strerror))dlsym(lib, "munge_strerror");
    m->ctx_create = (__typeof__(m->ctx_create))dlsym(lib, "munge_ctx_create");
    m->ctx_destroy = (__typeof__(m->ctx_destroy))dlsym(lib, "munge_ctx_destroy");
    m->ctx_set = (__typeof__(m->ctx_set))dlsym(lib, "munge_ctx_set");
    m->ctx_get = (__typeof__(m->ctx_get))dlsym(lib, "munge_ctx_get");
    if (m->encode == NULL || m->decode == NULL || m->strerror == NULL || m->ctx_create == NULL ||
        m->ctx_destroy == NULL || m->ctx_set == NULL || m->ctx_get == NULL)
        return crn_fail(ei, CAIRN_ENOTSUP, 0, "this libmunge cannot be used");
    return CAIRN_OK;
}

/* Is a munged listening? */
static cairn_err try_socket(const char *path, struct crn_errinfo *ei)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    cairn_err rc = CAIRN_OK;
    int fd;

    if (snprintf(un.sun_path, sizeof(un.sun_path), "%s", path) >= (int)sizeof(un.sun_path))
        return crn_fail(ei, CAIRN_ECONFIG, 0, "socket of MUNGE '%s': too long", path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return crn_fail_errno(ei, errno, "socket for MUNGE");
    if (connect(fd, (const struct sockaddr *)&un, sizeof(un)) != 0 && errno != EAGAIN)
        rc = crn_fail_errno(ei, errno, "munged does not answer at '%s'", path);
    (void)close(fd);
    return rc;
}

static cairn_err open_munge(const struct crn_auth_config *cfg, struct munge *m, munge_ctx_t *ret,
                            struct crn_errinfo *ei)
{
    const char *path = NULL;
    munge_ctx_t ctx;
    cairn_err rc;

    rc = auth_munge_load(m, ei);
    if (rc != CAIRN_OK)
        return rc;
    ctx = m->ctx_create();
    if (ctx == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "no memory for MUNGE");
    if ((cfg->munge_socket[0] != '\0' &&
         m->ctx_set(ctx, MUNGE_OPT_SOCKET, cfg->munge_socket) != EMUNGE_SUCCESS) ||
        m->ctx_get(ctx, MUNGE_OPT_SOCKET, &path) != EMUNGE_SUCCESS)
        rc = crn_fail(ei, CAIRN_EINVAL, 0, "MUNGE refuses the socket '%s'", cfg->munge_socket);
    if (rc == CAIRN_OK)
        rc = try_socket(path, ei);
    if (rc == CAIRN_OK)
        *ret = ctx;
    else
        m->ctx_destroy(ctx);
    return rc;
}

/* The credential of one side; only `only` and root can decode it, unless it is NULL. */
static cairn_err munge_make(const struct crn_auth_config *cfg, const struct crn_auth_talk *talk,
                            const char *who, const uid_t *only, struct crn_bp_proof *ret,
                            struct crn_errinfo *ei)
{
    struct crn_buf b = {0};
    char *credential = NULL;
    munge_err_t error;
    munge_ctx_t ctx;
    struct munge m;
    cairn_err rc;

    rc = open_munge(cfg, &m, &ctx, ei);
    if (rc != CAIRN_OK)
        return rc;
    crn_auth_transcript(talk, who, &b);
    error = only != NULL ? m.ctx_set(ctx, MUNGE_OPT_UID_RESTRICTION, *only) : EMUNGE_SUCCESS;
    if (error == EMUNGE_SUCCESS)
        error = m.encode(&credential, ctx, b.data, (int)b.len);
    if (b.failed || error != EMUNGE_SUCCESS) {
        rc = crn_fail(ei, CAIRN_EPERM, 0, "MUNGE: %s", m.strerror(error));
    } else if (strlen(credential) > CRN_BP_PROOF) {
        rc = crn_fail(ei, CAIRN_ELIMIT, 0, "a MUNGE credential of %zu bytes", strlen(credential));
    } else {
        ret->len = (uint16_t)strlen(credential);
        memcpy(ret->data, credential, ret->len);
    }
    free(credential);
    m.ctx_destroy(ctx);
    crn_buf_free(&b);
    return rc;
}

static cairn_err auth_munge_prove(const struct crn_auth_config *cfg,
                                  const struct crn_auth_talk *talk, struct crn_bp_proof *ret,
                                  struct crn_errinfo *ei)
{
    return munge_make(cfg, talk, "job", NULL, ret, ei);
}

/* Who made the credential of one side? */
static cairn_err munge_read(const struct crn_auth_config *cfg, const struct crn_auth_talk *talk,
                            const char *who, const struct crn_bp_proof *proof, uid_t *ret,
                            struct crn_errinfo *ei)
{
    char credential[CRN_BP_PROOF + 1];
    struct crn_buf b = {0};
    void *payload = NULL;
    munge_err_t error;
    munge_ctx_t ctx;
    struct munge m;
    int len = 0;
    gid_t gid;
    cairn_err rc;

    rc = open_munge(cfg, &m, &ctx, ei);
    if (rc != CAIRN_OK)
        return rc;
    memcpy(credential, proof->data, proof->len);
    credential[proof->len] = '\0';
    crn_auth_transcript(talk, who, &b);
    error = m.decode(credential, ctx, &payload, &len, ret, &gid);
    if (error != EMUNGE_SUCCESS)
        rc = crn_fail(ei, CAIRN_EPERM, 0, "MUNGE: %s", m.strerror(error));
    else if (b.failed || (size_t)len != b.len || memcmp(payload, b.data, b.len) != 0)
        rc = crn_fail(ei, CAIRN_EPERM, 0, "a MUNGE credential of another login");
    free(payload);
    m.ctx_destroy(ctx);
    crn_buf_free(&b);
    return rc;
}

static cairn_err auth_munge_verify(const struct crn_auth_config *cfg,
                                   const struct crn_auth_talk *talk,
                                   const struct crn_bp_proof *proof, char *ret_user,
                                   struct crn_bp_proof *ret_back, struct crn_errinfo *ei)
{
    uid_t uid;
    cairn_err rc = munge_read(cfg, talk, "job", proof, &uid, ei);

    if (rc != CAIRN_OK)
        return rc;
    crn_auth_user_name(uid, ret_user);
    return munge_make(cfg, talk, "broker", &uid, ret_back, ei);
}

static cairn_err auth_munge_confirm(const struct crn_auth_config *cfg,
                                    const struct crn_auth_talk *talk,
                                    const struct crn_bp_proof *back, struct crn_errinfo *ei)
{
    uid_t uid;
    cairn_err rc = munge_read(cfg, talk, "broker", back, &uid, ei);

    return rc == CAIRN_OK ? crn_auth_check_broker(cfg, uid, ei) : rc;
}
#else
static cairn_err auth_munge_prove(const struct crn_auth_config *cfg,
                                  const struct crn_auth_talk *talk, struct crn_bp_proof *ret,
                                  struct crn_errinfo *ei)
{
    (void)cfg, (void)talk, (void)ret;
    return crn_fail(ei, CAIRN_ENOTSUP, 0, "login by MUNGE is not built in");
}

static cairn_err auth_munge_verify(const struct crn_auth_config *cfg,
                                   const struct crn_auth_talk *talk,
                                   const struct crn_bp_proof *proof, char *ret_user,
                                   struct crn_bp_proof *ret_back, struct crn_errinfo *ei)
{
    (void)cfg, (void)talk, (void)proof, (void)ret_user, (void)ret_back;
    return crn_fail(ei, CAIRN_ENOTSUP, 0, "login by MUNGE is not built in");
}

static cairn_err auth_munge_confirm(const struct crn_auth_config *cfg,
                                    const struct crn_auth_talk *talk,
                                    const struct crn_bp_proof *back, struct crn_errinfo *ei)
{
    (void)cfg, (void)talk, (void)back;
    return crn_fail(ei, CAIRN_ENOTSUP, 0, "login by MUNGE is not built in");
}
#endif

const struct crn_auth_ops crn_auth_munge = {
    .method = CRN_AUTH_MUNGE,
    .name = "munge",
    .introduce = auth_munge_introduce,
    .prove = auth_munge_prove,
    .verify = auth_munge_verify,
    .confirm = auth_munge_confirm,
};
