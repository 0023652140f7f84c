/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads INI text through libinih and hides its limits. libinih truncates lines at 200 bytes and
 * section names at 50, treats an indented line as a continuation, and carries on after an error.
 * read_line hands it clean lines, splits long values into continuation lines, and keeps track of
 * the position. */
#include "base/config.h"

#include <fcntl.h>
#include <ini.h>
#include <stdlib.h>
#include <string.h>

#include "base/config_impl.h"
#include "base/fs.h"

#define FILE_MAX ((size_t)1 << 20)
#define BLANKS   " \t\r\f\v"

struct parse {
    crn_ini_fn fn;
    void *arg;
    const char *what;
    const char *next;  /* unread text */
    const char *piece; /* unread rest of a line that is split; NULL: none */
    size_t piece_len;
    int line;         /* number of the current line */
    int is_continued; /* the line given to libinih continues a value */
    char section[CAIRN_MAX_NAME + 32];
    char key[64];
    char value[2 * CRN_PATH_MAX];
    int key_line; /* line on which key began; 0: none */
    cairn_err rc;
    struct crn_errinfo *ei;
};

static void config_text_fail(struct parse *p, int line, const char *text)
{
    if (p->rc == CAIRN_OK)
        p->rc = crn_fail(p->ei, CAIRN_ECONFIG, 0, "%s:%d: %s", p->what, line, text);
}

static void hand_over(struct parse *p, const char *key, const char *value, int line)
{
    char where[256];

    if (p->rc != CAIRN_OK)
        return;
    (void)snprintf(where, sizeof(where), "%s:%d", p->what, line);
    p->rc = p->fn(p->arg, p->section, key, value, where, p->ei);
}

/* Hands over the current key, whose value is complete. */
static void config_text_apply(struct parse *p)
{
    if (p->key_line != 0)
        hand_over(p, p->key, p->value, p->key_line);
    p->key_line = 0;
}

/* Handler for libinih: a pair, or the continuation of its value. libinih takes non-zero for
 * success. */
static int on_pair(void *user, const char *section, const char *name, const char *value)
{
    struct parse *p = user;
    size_t used;

    (void)section; /* truncated at 50 bytes; p->section is complete */
    if (!p->is_continued) {
        config_text_apply(p);
        (void)snprintf(p->key, sizeof(p->key), "%s", name);
        p->value[0] = '\0';
        p->key_line = p->line;
    }
    used = strlen(p->value);
    if ((size_t)snprintf(p->value + used, sizeof(p->value) - used, "%s", value) >=
        sizeof(p->value) - used)
        config_text_fail(p, p->line, "the value is too long");
    return 1;
}

static void enter_section(struct parse *p, const char *line, size_t len)
{
    const char *end = memchr(line, ']', len);

    config_text_apply(p);
    if (end == NULL || (size_t)(end - line) > sizeof(p->section)) {
        config_text_fail(p, p->line, "the section is not [NAME], or too long");
        return;
    }
    memcpy(p->section, line + 1, (size_t)(end - line) - 1);
    p->section[end - line - 1] = '\0';
    hand_over(p, NULL, NULL, p->line);
}

/* Length of the next continuation line, at most room bytes. Splits where libinih neither trims
 * blanks nor sees a comment. */
static size_t take_piece(struct parse *p, size_t room)
{
    static const char avoid[] = BLANKS ";#";
    size_t n = p->piece_len;

    if (n > room) {
        for (n = room; n > 1 && (strchr(avoid, p->piece[n]) || strchr(avoid, p->piece[n - 1]));)
            n--;
    }
    return n;
}

/* Reads the next line: trims it, strips its comment, enters a section. */
static void next_line(struct parse *p)
{
    const char *line = p->next;
    size_t len = strcspn(line, "\n");
    size_t i;

    p->next += len + (line[len] == '\n');
    p->line++;
    p->is_continued = 0;
    for (; len > 0 && strchr(BLANKS, *line) != NULL; len--)
        line++;
    for (i = 1; i < len; i++)
        if (line[i] == ';' && strchr(BLANKS, line[i - 1]) != NULL)
            len = i;
    while (len > 0 && strchr(BLANKS, line[len - 1]) != NULL)
        len--;
    if (len > 0 && (*line == ';' || *line == '#'))
        len = 0;
    if (len > 0 && *line == '[')
        enter_section(p, line, len);
    else if (len > 0 && memchr(line, '=', len) == NULL && memchr(line, ':', len) == NULL)
        config_text_fail(p, p->line, "expected key = value");
    p->piece = line;
    p->piece_len = len;
}

/* Replaces fgets for libinih. */
static char *read_line(char *str, int num, void *stream)
{
    struct parse *p = stream;
    size_t indent = 0;
    size_t n;

    if (p->rc != CAIRN_OK)
        return NULL;
    if (p->piece != NULL) {
        p->is_continued = 1;
        indent = 1;
    } else if (*p->next == '\0') {
        return NULL;
    } else {
        next_line(p);
    }
    n = take_piece(p, (size_t)num - 3);
    str[0] = ' ';
    memcpy(str + indent, p->piece, n);
    memcpy(str + indent + n, "\n", 2);
    p->piece_len -= n;
    p->piece = p->piece_len > 0 ? p->piece + n : NULL;
    return str;
}

cairn_err crn_config_ini_text(const char *text, const char *what, crn_ini_fn fn, void *arg,
                              struct crn_errinfo *ei)
{
    struct parse p = {.fn = fn, .arg = arg, .what = what, .next = text, .ei = ei};
    int bad;

    if (strncmp(text, "\xEF\xBB\xBF", 3) == 0)
        p.next += 3;
    bad = ini_parse_stream(read_line, &p, on_pair, &p);
    config_text_apply(&p);
    if (bad != 0)
        config_text_fail(&p, p.line, "not an INI file");
    return p.rc;
}

cairn_err crn_config_ini_file(const char *path, crn_ini_fn fn, void *arg, struct crn_errinfo *ei)
{
    char *real = realpath(path, NULL); /* crn_fs_read_file follows no links */
    void *text;
    size_t len;
    cairn_err rc;

    rc = crn_fs_read_file(crn_fs_posix(), AT_FDCWD, real != NULL ? real : path, FILE_MAX, &text,
                          &len, ei);
    free(real);
    if (rc != CAIRN_OK)
        return crn_err_context(ei, rc, "configuration file");
    if (strlen(text) != len)
        rc = crn_fail(ei, CAIRN_ECONFIG, 0, "'%s' is not a text file", path);
    else
        rc = crn_config_ini_text(text, path, fn, arg, ei);
    free(text);
    return rc;
}

/* Sets a key for all checkpoints or for one name, depending on the section. */
static cairn_err set_in_section(void *arg, const char *section, const char *key, const char *value,
                                const char *where, struct crn_errinfo *ei)
{
    static const char prefix[] = "checkpoint ";
    struct crn_config *cfg = arg;
    const char *name;

    if (section[0] == '\0' || strcmp(section, "cairn") == 0)
        return key != NULL ? crn_config_set(cfg, key, value, where, ei) : CAIRN_OK;
    if (strncmp(section, prefix, sizeof(prefix) - 1) != 0)
        return crn_fail(ei, CAIRN_ECONFIG, 0,
                        "%s: unknown section; known are [cairn] and [checkpoint NAME]", where);
    if (key == NULL)
        return CAIRN_OK;
    name = section + sizeof(prefix) - 1;
    name += strspn(name, BLANKS);
    return crn_config_set_for(cfg, name, key, value, where, ei);
}

cairn_err crn_config_text(struct crn_config *cfg, const char *text, const char *what,
                          struct crn_errinfo *ei)
{
    return crn_config_ini_text(text, what, set_in_section, cfg, ei);
}

cairn_err crn_config_file(struct crn_config *cfg, const char *path, struct crn_errinfo *ei)
{
    return crn_config_ini_file(path, set_in_section, cfg, ei);
}
