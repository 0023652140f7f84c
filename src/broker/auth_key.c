/* SPDX-License-Identifier: BSD-3-Clause */
/* Login by a secret key per user. The broker's file has the keys of all users, a user's file
 * only that user's. The file is read at each login, so changes take effect at once. For a user
 * missing from the broker's file, the proof is checked against a random key, so the login fails
 * as slowly as with a wrong key. The broker proves itself with the same key. libsodium does the
 * arithmetic. */
#include "broker/auth.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/fs.h"
#include "base/rng.h"

#define KEY_BYTES 32
#define MAC_BYTES 32
#define MAX_FILE  (4u << 20)

static int hex_digit(char c)
{
    static const char digits[] = "0123456789abcdef";
    const char *p = c == '\0' ? NULL : strchr(digits, c | 0x20);

    return p == NULL ? -1 : (int)(p - digits);
}

static int parse_key(const char *text, uint8_t *key)
{
    size_t i;

    for (i = 0; i < KEY_BYTES; i++) {
        int high = hex_digit(text[2 * i]);
        int low = high < 0 ? -1 : hex_digit(text[2 * i + 1]);

        if (low < 0)
            return -1;
        key[i] = (uint8_t)(high << 4 | low);
    }
    return text[(size_t)2 * KEY_BYTES] == '\0' ? 0 : -1;
}

static cairn_err check_file(const struct crn_fs *fs, int fd, const char *path, size_t *ret_size,
                            struct crn_errinfo *ei)
{
    struct stat st;
    cairn_err rc;

    rc = crn_fs_check(fs->fstat(fs, fd, &st), ei, "key file '%s'", path);
    if (rc != CAIRN_OK)
        return rc;
    if (!S_ISREG(st.st_mode) || st.st_size > MAX_FILE)
        return crn_fail(ei, CAIRN_EPERM, 0, "'%s' is not a key file", path);
    if ((st.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        return crn_fail(ei, CAIRN_EPERM, 0, "key file '%s' is open to others; chmod 600 it", path);
    *ret_size = (size_t)st.st_size;
    return CAIRN_OK;
}

/* Reads the whole file as text. Refuses a file that others could read or write. */
static cairn_err read_keys(const char *path, char **ret, size_t *ret_size, struct crn_errinfo *ei)
{
    const struct crn_fs *fs = crn_fs_default();
    char *text = NULL;
    size_t size = 0;
    cairn_err rc;
    int fd;

    if (path[0] == '\0')
        return crn_fail(ei, CAIRN_ECONFIG, 0, "login by key needs a key file");
    fd = fs->openat(fs, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0);
    rc = crn_fs_check(fd, ei, "key file '%s'", path);
    if (rc != CAIRN_OK)
        return rc;
    rc = check_file(fs, fd, path, &size, ei);
    if (rc == CAIRN_OK && (text = calloc(1, size + 1)) == NULL)
        rc = crn_fail(ei, CAIRN_ENOMEM, 0, "key file '%s'", path);
    if (rc == CAIRN_OK)
        rc = crn_fs_read_all(fs, fd, text, size, 0, path, ei);
    (void)fs->close(fs, fd);
    if (rc == CAIRN_OK)
        *ret = text, *ret_size = size;
    else
        free(text);
    return rc;
}

/* The entry of a user, or the first one if user is empty; then fills in the user's name. */
static cairn_err find_key(const char *path, char *user, uint8_t *key, struct crn_errinfo *ei)
{
    char *text = NULL, *line, *lines;
    size_t size = 0;
    cairn_err rc;

    rc = read_keys(path, &text, &size, ei);
    if (rc != CAIRN_OK)
        return rc;
    rc = CAIRN_ENOENT;
    for (lines = text; rc == CAIRN_ENOENT && (line = strsep(&lines, "\n")) != NULL;) {
        char *save = NULL;
        char *name = strtok_r(line, " \t\r", &save);
        char *digits = strtok_r(NULL, " \t\r", &save);

        if (name == NULL || name[0] == '#' || (user[0] != '\0' && strcmp(name, user) != 0))
            continue;
        rc = CAIRN_OK;
        if (digits == NULL || strlen(name) >= CRN_BP_NAME || parse_key(digits, key) != 0)
            rc = crn_fail(ei, CAIRN_ECONFIG, 0, "key file '%s': the line of '%.20s' is not a key",
                          path, name);
        else if (user[0] == '\0')
            memcpy(user, name, strlen(name) + 1);
    }
    if (rc == CAIRN_ENOENT)
        rc = crn_fail(ei, CAIRN_ENOENT, 0, "key file '%s' has no key%s%s", path,
                      user[0] != '\0' ? " of " : "", user);
    explicit_bzero(text, size);
    free(text);
    return rc;
}

static cairn_err auth_key_introduce(const struct crn_auth_config *cfg, char *user,
                                    struct crn_errinfo *ei)
{
    uint8_t key[KEY_BYTES];
    cairn_err rc;

    user[0] = '\0';
    rc = find_key(cfg->key_file, user, key, ei);
    explicit_bzero(key, sizeof(key));
    return rc;
}

#ifdef CRN_HAVE_SODIUM
#include <sodium.h>

struct sodium {
    __typeof__(sodium_init) *init;
    __typeof__(crypto_auth_hmacsha256) *mac;
    __typeof__(crypto_auth_hmacsha256_verify) *verify;
};

/* Never unloaded. Two threads may race here; both load the same. */
static cairn_err auth_key_load(struct sodium *ret, struct crn_errinfo *ei)
{
    void *lib = dlopen("libsodium.so.23", RTLD_NOW | RTLD_LOCAL);

    if (lib == NULL)
        return crn_fail(ei, CAIRN_ENOTSUP, 0, "login by key needs libsodium: %s", dlerror());
    ret->init = (__typeof__(ret->init))dlsym(lib, "sodium_init");
    ret->mac = (__typeof__(ret->mac))dlsym(lib, "crypto_auth_hmacsha256");
    ret->verify = (__typeof__(ret->verify))dlsym(lib, "crypto_auth_hmacsha256_verify");
    if (ret->init == NULL || ret->mac == NULL || ret->verify == NULL || ret->init() < 0)
        return crn_fail(ei, CAIRN_ENOTSUP, 0, "this libsodium cannot be used");
    return CAIRN_OK;
}

static cairn_err make_mac(const struct crn_auth_talk *talk, const char *who, const uint8_t *key,
                          struct crn_bp_proof *ret, struct crn_errinfo *ei)
{
    struct crn_buf b = {0};
    struct sodium sodium;
    cairn_err rc;

    rc = auth_key_load(&sodium, ei);
    if (rc != CAIRN_OK)
        return rc;
    crn_auth_transcript(talk, who, &b);
    if (b.failed || sodium.mac(ret->data, b.data, b.len, key) != 0)
        rc = crn_fail(ei, CAIRN_ENOMEM, 0, "login by key");
    ret->len = MAC_BYTES;
    crn_buf_free(&b);
    return rc;
}

static cairn_err check_mac(const struct crn_auth_talk *talk, const char *who, const uint8_t *key,
                           const struct crn_bp_proof *proof, struct crn_errinfo *ei)
{
    struct crn_buf b = {0};
    struct sodium sodium;
    cairn_err rc;

    rc = auth_key_load(&sodium, ei);
    if (rc != CAIRN_OK)
        return rc;
    crn_auth_transcript(talk, who, &b);
    if (b.failed || proof->len != MAC_BYTES || sodium.verify(proof->data, b.data, b.len, key) != 0)
        rc = crn_fail(ei, CAIRN_EPERM, 0, "the %s does not have the key of %s", who,
                      talk->hello.user);
    crn_buf_free(&b);
    return rc;
}
#else
static cairn_err make_mac(const struct crn_auth_talk *talk, const char *who, const uint8_t *key,
                          struct crn_bp_proof *ret, struct crn_errinfo *ei)
{
    (void)talk, (void)who, (void)key, (void)ret;
    return crn_fail(ei, CAIRN_ENOTSUP, 0, "login by key is not built in (libsodium)");
}

static cairn_err check_mac(const struct crn_auth_talk *talk, const char *who, const uint8_t *key,
                           const struct crn_bp_proof *proof, struct crn_errinfo *ei)
{
    (void)talk, (void)who, (void)key, (void)proof;
    return crn_fail(ei, CAIRN_ENOTSUP, 0, "login by key is not built in (libsodium)");
}
#endif

static cairn_err auth_key_prove(const struct crn_auth_config *cfg, const struct crn_auth_talk *talk,
                                struct crn_bp_proof *ret, struct crn_errinfo *ei)
{
    char user[CRN_BP_NAME];
    uint8_t key[KEY_BYTES];
    cairn_err rc;

    memcpy(user, talk->hello.user, sizeof(user));
    rc = find_key(cfg->key_file, user, key, ei);
    if (rc == CAIRN_OK)
        rc = make_mac(talk, "job", key, ret, ei);
    explicit_bzero(key, sizeof(key));
    return rc;
}

static cairn_err auth_key_verify(const struct crn_auth_config *cfg,
                                 const struct crn_auth_talk *talk, const struct crn_bp_proof *proof,
                                 char *ret_user, struct crn_bp_proof *ret_back,
                                 struct crn_errinfo *ei)
{
    struct crn_errinfo ignored = {0};
    uint8_t key[KEY_BYTES];
    cairn_err rc;

    memcpy(ret_user, talk->hello.user, CRN_BP_NAME);
    if (ret_user[0] == '\0')
        return crn_fail(ei, CAIRN_EPERM, 0, "login by key without a name");
    rc = find_key(cfg->key_file, ret_user, key, &ignored);
    if (rc == CAIRN_ENOENT)
        crn_random_bytes(key, sizeof(key)); /* fails below, like a wrong key */
    else if (rc != CAIRN_OK)
        return crn_fail(ei, rc, 0, "%s", ignored.msg);
    rc = check_mac(talk, "job", key, proof, ei);
    if (rc == CAIRN_OK)
        rc = make_mac(talk, "broker", key, ret_back, ei);
    explicit_bzero(key, sizeof(key));
    return rc;
}

static cairn_err auth_key_confirm(const struct crn_auth_config *cfg,
                                  const struct crn_auth_talk *talk, const struct crn_bp_proof *back,
                                  struct crn_errinfo *ei)
{
    char user[CRN_BP_NAME];
    uint8_t key[KEY_BYTES];
    cairn_err rc;

    memcpy(user, talk->hello.user, sizeof(user));
    rc = find_key(cfg->key_file, user, key, ei);
    if (rc == CAIRN_OK)
        rc = check_mac(talk, "broker", key, back, ei);
    explicit_bzero(key, sizeof(key));
    return rc;
}

void crn_auth_new_key(const char *user, char *line, size_t size)
{
    uint8_t key[KEY_BYTES];
    char hex[2 * KEY_BYTES + 1];
    size_t i;

    crn_random_bytes(key, sizeof(key));
    for (i = 0; i < KEY_BYTES; i++)
        (void)snprintf(hex + 2 * i, 3, "%02x", key[i]);
    (void)snprintf(line, size, "%s %s", user, hex);
    explicit_bzero(key, sizeof(key));
    explicit_bzero(hex, sizeof(hex));
}

const struct crn_auth_ops crn_auth_key = {
    .method = CRN_AUTH_KEY,
    .name = "key",
    .introduce = auth_key_introduce,
    .prove = auth_key_prove,
    .verify = auth_key_verify,
    .confirm = auth_key_confirm,
};
