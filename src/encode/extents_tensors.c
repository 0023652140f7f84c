/* SPDX-License-Identifier: BSD-3-Clause */
/* Files of the machine learning world: safetensors, NumPy arrays (.npy), and zip archives without
 * compression, which hold arrays (.npz) or the storages of PyTorch. Everything in them is hostile: a
 * number that does not fit ends the search, and what was found so far stays. */
#include "encode/extents.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

/* ---- safetensors: u64 length, JSON, data ------------------------------------------------------ */

#define DEPTH_MAX 32

struct json {
    const char *p, *end;
    int failed;
};

static void json_space(struct json *j)
{
    while (j->p < j->end && (*j->p == ' ' || *j->p == '\n' || *j->p == '\t' || *j->p == '\r'))
        j->p++;
}

/* The next character, if it is this one. */
static int json_take(struct json *j, char c)
{
    json_space(j);
    if (j->failed || j->p == j->end || *j->p != c)
        return 0;
    j->p++;
    return 1;
}

static void json_need(struct json *j, char c)
{
    if (!json_take(j, c))
        j->failed = 1;
}

/* A string as it is written; its length is returned. */
static size_t json_string(struct json *j, const char **ret)
{
    const char *begin;

    json_need(j, '"');
    begin = j->p;
    while (!j->failed && j->p < j->end && *j->p != '"')
        j->p += *j->p == '\\' && j->end - j->p > 1 ? 2 : 1;
    if (j->failed || j->p >= j->end) {
        j->failed = 1;
        return 0;
    }
    *ret = begin;
    return (size_t)(j->p++ - begin);
}

static uint64_t json_number(struct json *j)
{
    uint64_t value = 0;

    json_space(j);
    if (j->failed || j->p == j->end || *j->p < '0' || *j->p > '9')
        j->failed = 1;
    for (; !j->failed && j->p < j->end && *j->p >= '0' && *j->p <= '9'; j->p++)
        if (__builtin_mul_overflow(value, 10U, &value) ||
            __builtin_add_overflow(value, (uint64_t)(*j->p - '0'), &value))
            j->failed = 1;
    return value;
}

/* Numbers in brackets; returns how many, at most `most`. */
static unsigned json_numbers(struct json *j, uint64_t *ret, unsigned most)
{
    unsigned n = 0;

    json_need(j, '[');
    if (json_take(j, ']'))
        return 0;
    do {
        uint64_t value = json_number(j);

        if (n == most)
            j->failed = 1;
        else
            ret[n++] = value;
    } while (json_take(j, ','));
    json_need(j, ']');
    return n;
}

/* Skips a value of any kind: brackets are counted, strings are passed over. */
static void json_skip(struct json *j)
{
    unsigned depth = 0;
    const char *text;

    do {
        json_space(j);
        if (j->p == j->end || depth > DEPTH_MAX)
            j->failed = 1;
        if (j->failed)
            return;
        if (*j->p == '"') {
            (void)json_string(j, &text);
            continue;
        }
        depth += *j->p == '{' || *j->p == '[';
        if (*j->p == '}' || *j->p == ']') {
            if (depth == 0)
                j->failed = 1;
            else
                depth--;
        }
        j->p++;
    } while (depth > 0 ||
             (j->p < j->end && *j->p != ',' && *j->p != '}' && *j->p != ']' && !j->failed));
}

struct named_type {
    const char *name;
    cairn_type type;
};

static cairn_type type_named(const struct named_type *types, size_t n, const char *name, size_t len)
{
    size_t i;

    for (i = 0; i < n; i++)
        if (strlen(types[i].name) == len && memcmp(types[i].name, name, len) == 0)
            return types[i].type;
    return CAIRN_BYTES;
}

#define TYPE_NAMED(types, name, len)                                                               \
    type_named((types), sizeof(types) / sizeof(*(types)), name, len)

static const struct named_type tensor_types[] = {
    {"F64", CAIRN_F64},   {"F32", CAIRN_F32},         {"F16", CAIRN_F16},
    {"BF16", CAIRN_BF16}, {"I64", CAIRN_I64},         {"I32", CAIRN_I32},
    {"I16", CAIRN_I16},   {"I8", CAIRN_I8},           {"U64", CAIRN_U64},
    {"U32", CAIRN_U32},   {"U16", CAIRN_U16},         {"U8", CAIRN_U8},
    {"BOOL", CAIRN_BOOL}, {"F8_E4M3", CAIRN_F8_E4M3}, {"F8_E5M2", CAIRN_F8_E5M2},
};

struct tensor {
    cairn_type type;
    unsigned ndims;
    uint64_t dims[CAIRN_MAX_DIMS];
    uint64_t place[2];
};

static void json_tensor(struct json *j, struct tensor *ret)
{
    memset(ret, 0, sizeof(*ret));
    json_need(j, '{');
    do {
        const char *field = "";
        const char *value = "";
        size_t n = json_string(j, &field);

        json_need(j, ':');
        if (j->failed)
            return;
        if (n == 5 && memcmp(field, "dtype", 5) == 0) {
            size_t len = json_string(j, &value);

            ret->type = TYPE_NAMED(tensor_types, value, len);
        } else if (n == 5 && memcmp(field, "shape", 5) == 0) {
            ret->ndims = json_numbers(j, ret->dims, CAIRN_MAX_DIMS);
        } else if (n == 12 && memcmp(field, "data_offsets", 12) == 0) {
            j->failed |= json_numbers(j, ret->place, 2) != 2;
        } else {
            json_skip(j);
        }
    } while (json_take(j, ','));
    json_need(j, '}');
}

int crn_extents_safetensors(const void *header, size_t n, uint64_t file_bytes,
                            struct crn_file_extents *ret)
{
    struct crn_view v = crn_view_of(header, n);
    uint64_t length = crn_view_u64(&v);
    struct json j;

    memset(ret, 0, sizeof(*ret));
    if (v.failed || file_bytes < 8 || length > file_bytes - 8 || length < 2)
        return 0;
    if (length > crn_view_left(&v))
        return -1;
    j = (struct json){.p = (const char *)header + 8, .end = (const char *)header + 8 + length};
    json_need(&j, '{');
    do {
        const char *name = "";
        size_t name_n = json_string(&j, &name);
        struct tensor t;

        json_need(&j, ':');
        if (j.failed)
            break;
        if (name_n == 12 && memcmp(name, "__metadata__", 12) == 0) {
            json_skip(&j);
            continue;
        }
        json_tensor(&j, &t);
        if (!j.failed && t.type != CAIRN_BYTES && t.place[0] <= file_bytes)
            crn_extents_add(ret, crn_extents_key(ret, name, name_n), t.type, 0,
                            8 + length + t.place[0], t.dims, t.ndims);
    } while (json_take(&j, ',') && !ret->failed);
    return 0;
}

/* ---- .npy: magic, version, length, a dict in Python's notation -------------------------------- */

static const struct named_type numpy_types[] = {
    {"f2", CAIRN_F16},   {"f4", CAIRN_F32},  {"f8", CAIRN_F64}, {"c8", CAIRN_C64},
    {"c16", CAIRN_C128}, {"i1", CAIRN_I8},   {"i2", CAIRN_I16}, {"i4", CAIRN_I32},
    {"i8", CAIRN_I64},   {"u1", CAIRN_U8},   {"u2", CAIRN_U16}, {"u4", CAIRN_U32},
    {"u8", CAIRN_U64},   {"b1", CAIRN_BOOL},
};

/* What follows 'key': in the dict, up to its end; NULL: missing. */
static const char *dict_value(const char *dict, const char *key)
{
    const char *at = strstr(dict, key);

    if (at == NULL)
        return NULL;
    at += strlen(key);
    return at + strspn(at, ": ");
}

static unsigned numpy_shape(const char *text, uint64_t *dims, int is_fortran)
{
    unsigned n = 0;
    unsigned i;
    char *end;

    for (text++; n < CAIRN_MAX_DIMS; text = end + strspn(end, ", ")) {
        unsigned long long value = strtoull(text, &end, 10);

        if (end == text)
            break;
        dims[n++] = value;
    }
    for (i = 0; is_fortran && i < n / 2; i++) {
        uint64_t swap = dims[i];

        dims[i] = dims[n - 1 - i];
        dims[n - 1 - i] = swap;
    }
    return n;
}

void crn_extents_npy(const void *header, size_t n, uint64_t at, const char *name, size_t name_n,
                     struct crn_file_extents *ret)
{
    struct crn_view v = crn_view_of(header, n);
    const unsigned char *magic = crn_view_take(&v, 8);
    char dict[CRN_NPY_HEAD + 1];
    const char *descr, *fortran, *shape;
    uint64_t dims[CAIRN_MAX_DIMS];
    size_t length, type_n;
    cairn_type type;
    unsigned ndims;

    if (magic == NULL || memcmp(magic, "\x93NUMPY", 6) != 0)
        return;
    length = magic[6] == 1 ? crn_view_u16(&v) : crn_view_u32(&v);
    if (v.failed || length > crn_view_left(&v) || length > CRN_NPY_HEAD)
        return;
    memcpy(dict, v.data + v.at, length);
    dict[length] = '\0';
    descr = dict_value(dict, "'descr'");
    fortran = dict_value(dict, "'fortran_order'");
    shape = dict_value(dict, "'shape'");
    if (descr == NULL || fortran == NULL || shape == NULL || *descr != '\'' || descr[1] == '\0' ||
        *shape != '(')
        return;
    type_n = strcspn(descr + 2, "'");
    type = TYPE_NAMED(numpy_types, descr + 2, type_n);
    ndims = numpy_shape(shape, dims, *fortran == 'T');
    if (type != CAIRN_BYTES)
        crn_extents_add(ret, crn_extents_key(ret, name, name_n), type, descr[1] == '>',
                        at + v.at + length, dims, ndims);
}

/* ---- zip -------------------------------------------------------------------------------------- */

#define ZIP_END      0x06054b50U
#define ZIP_END_64   0x06064b50U
#define ZIP_ENTRY    0x02014b50U
#define ZIP_LOCAL    0x04034b50U
#define ZIP_TAIL     ((size_t)66000)
#define ZIP_DIR_MOST ((uint64_t)64 << 20)

struct zip {
    const struct crn_extents_file *f;
    struct crn_file_extents *x;
    unsigned char *pickle; /* of PyTorch; NULL: none */
    size_t pickle_n;
};

struct zip_entry {
    const char *name;
    size_t name_n;
    uint64_t bytes; /* not compressed */
    uint64_t local; /* offset of its header */
};

static void *zip_read(struct zip *z, uint64_t at, uint64_t n)
{
    unsigned char *p;

    if (n == 0 || n > z->f->bytes || at > z->f->bytes - n)
        return NULL;
    p = malloc((size_t)n);
    if (p != NULL && z->f->read(z->f, p, (size_t)n, at) != n) {
        free(p);
        p = NULL;
    }
    return p;
}

/* Where the directory lies; 0, or -1 if the file has none. */
static int zip_directory(struct zip *z, uint64_t *ret_at, uint64_t *ret_bytes)
{
    size_t n = z->f->bytes < ZIP_TAIL ? (size_t)z->f->bytes : ZIP_TAIL;
    unsigned char *tail = zip_read(z, z->f->bytes - n, n);
    struct crn_view v;
    size_t at;

    for (at = n; tail != NULL && at >= 22; at--) {
        v = crn_view_of(tail + at - 22, 22);
        if (crn_view_u32(&v) != ZIP_END)
            continue;
        (void)crn_view_take(&v, 8);
        *ret_bytes = crn_view_u32(&v);
        *ret_at = crn_view_u32(&v);
        if (*ret_at == UINT32_MAX && at >= 22 + 20 + 56) { /* the larger record lies before it */
            v = crn_view_of(tail + at - 22 - 20 - 56, 56);
            if (crn_view_u32(&v) != ZIP_END_64)
                break;
            (void)crn_view_take(&v, 36);
            *ret_bytes = crn_view_u64(&v);
            *ret_at = crn_view_u64(&v);
        }
        free(tail);
        return *ret_bytes <= ZIP_DIR_MOST ? 0 : -1;
    }
    free(tail);
    return -1;
}

/* The next entry of the directory; 0 if it is one without compression. */
static int zip_next(struct crn_view *v, struct zip_entry *ret)
{
    uint32_t mark = crn_view_u32(v);
    uint16_t method, name_n, extra_n, comment_n;
    uint64_t packed;
    struct crn_view extra;

    (void)crn_view_take(v, 6);
    method = crn_view_u16(v);
    (void)crn_view_take(v, 8);
    packed = crn_view_u32(v);
    ret->bytes = crn_view_u32(v);
    name_n = crn_view_u16(v);
    extra_n = crn_view_u16(v);
    comment_n = crn_view_u16(v);
    (void)crn_view_take(v, 8);
    ret->local = crn_view_u32(v);
    ret->name = crn_view_take(v, name_n);
    ret->name_n = name_n;
    extra = crn_view_of(crn_view_take(v, extra_n), v->failed ? 0 : extra_n);
    (void)crn_view_take(v, comment_n);
    if (mark != ZIP_ENTRY)
        v->failed = 1;
    while (!v->failed && crn_view_left(&extra) >= 4) {
        uint16_t id = crn_view_u16(&extra);
        uint16_t n = crn_view_u16(&extra);
        struct crn_view field = crn_view_of(crn_view_take(&extra, n), extra.failed ? 0 : n);

        if (extra.failed || id != 1)
            continue;
        ret->bytes = ret->bytes == UINT32_MAX ? crn_view_u64(&field) : ret->bytes;
        packed = packed == UINT32_MAX ? crn_view_u64(&field) : packed;
        ret->local = ret->local == UINT32_MAX ? crn_view_u64(&field) : ret->local;
    }
    return !v->failed && method == 0 && packed == ret->bytes ? 0 : -1;
}

/* Where the bytes of an entry begin; 0 if its header is damaged. */
static uint64_t zip_data(struct zip *z, const struct zip_entry *e)
{
    unsigned char *local = zip_read(z, e->local, 30);
    struct crn_view v = crn_view_of(local, local != NULL ? 30 : 0);
    uint64_t at = 0;

    if (crn_view_u32(&v) == ZIP_LOCAL) {
        (void)crn_view_take(&v, 22);
        at = e->local + 30 + crn_view_u16(&v);
        at += crn_view_u16(&v);
    }
    free(local);
    return at;
}

static const struct named_type torch_types[] = {
    {"FloatStorage", CAIRN_F32},     {"DoubleStorage", CAIRN_F64}, {"HalfStorage", CAIRN_F16},
    {"BFloat16Storage", CAIRN_BF16}, {"LongStorage", CAIRN_I64},   {"IntStorage", CAIRN_I32},
    {"ShortStorage", CAIRN_I16},     {"CharStorage", CAIRN_I8},    {"ByteStorage", CAIRN_U8},
    {"BoolStorage", CAIRN_BOOL},
};

/* The type of a storage: its number follows the class in the pickle, as text. The class is written
 * out the first time, and by its place in the memo later. */
static cairn_type torch_type(const struct zip *z, const char *number, size_t number_n)
{
    static const char module[] = "ctorch\n";
    cairn_type memo[256] = {0};
    cairn_type last = CAIRN_BYTES;
    size_t at = 0;

    while (at + sizeof(module) < z->pickle_n) {
        const unsigned char *p = z->pickle + at;
        size_t left = z->pickle_n - at;
        const unsigned char *end;

        if (memcmp(p, module, sizeof(module) - 1) == 0 &&
            (end = memchr(p + 7, '\n', left - 7)) != NULL) {
            last = TYPE_NAMED(torch_types, (const char *)p + 7, (size_t)(end - p - 7));
            at = (size_t)(end - z->pickle) + 1;
            if (at + 1 < z->pickle_n && z->pickle[at] == 'q')
                memo[z->pickle[at + 1]] = last;
            continue;
        }
        if (*p == 'h' && memo[p[1]] != CAIRN_BYTES)
            last = memo[p[1]];
        if (*p == 'X' && left > 5 + number_n && p[1] == number_n && p[2] == 0 && p[3] == 0 &&
            p[4] == 0 && memcmp(p + 5, number, number_n) == 0 && last != CAIRN_BYTES)
            return last;
        at++;
    }
    return CAIRN_BYTES;
}

static void zip_entry_add(struct zip *z, const struct zip_entry *e)
{
    static const char data[] = "/data/";
    const char *number = e->name_n > 0 ? memrchr(e->name, '/', e->name_n) : NULL;
    size_t number_n = number != NULL ? (size_t)(e->name + e->name_n - ++number) : 0;
    uint64_t at = e->bytes >= CRN_EXTENT_MIN ? zip_data(z, e) : 0;
    unsigned char *head;

    if (at == 0)
        return;
    if (e->name_n > 4 && memcmp(e->name + e->name_n - 4, ".npy", 4) == 0) {
        uint64_t n = e->bytes < CRN_NPY_HEAD ? e->bytes : CRN_NPY_HEAD;

        head = zip_read(z, at, n);
        if (head != NULL)
            crn_extents_npy(head, (size_t)n, at, e->name, e->name_n - 4, z->x);
        free(head);
    } else if (z->pickle != NULL && number_n > 0 && number_n < 8 &&
               (size_t)(number - e->name) >= sizeof(data) - 1 &&
               memcmp(number - (sizeof(data) - 1), data, sizeof(data) - 1) == 0) {
        cairn_type type = torch_type(z, number, number_n);
        uint64_t dims = e->bytes / cairn_type_size(type);

        crn_extents_add(z->x, crn_extents_key(z->x, "storage", 7), type, 0, at, &dims, 1);
    }
}

/* Loads the pickle that describes the storages, if there is one. */
static void zip_pickle(struct zip *z, struct crn_view v)
{
    static const char name[] = "/data.pkl";
    struct zip_entry e;

    while (z->pickle == NULL && !v.failed && crn_view_left(&v) > 0) {
        if (zip_next(&v, &e) == 0 && e.name_n >= sizeof(name) - 1 && e.bytes <= ZIP_DIR_MOST &&
            memcmp(e.name + e.name_n - (sizeof(name) - 1), name, sizeof(name) - 1) == 0) {
            uint64_t at = zip_data(z, &e);

            z->pickle = at > 0 ? zip_read(z, at, e.bytes) : NULL;
            z->pickle_n = z->pickle != NULL ? (size_t)e.bytes : 0;
        }
    }
}

void crn_extents_zip(const struct crn_extents_file *f, struct crn_file_extents *ret)
{
    struct zip z = {.f = f, .x = ret};
    uint64_t at, bytes;
    unsigned char *directory;
    struct zip_entry e;
    struct crn_view v;

    memset(ret, 0, sizeof(*ret));
    if (zip_directory(&z, &at, &bytes) != 0)
        return;
    directory = zip_read(&z, at, bytes);
    if (directory == NULL)
        return;
    v = crn_view_of(directory, (size_t)bytes);
    zip_pickle(&z, v);
    while (!v.failed && crn_view_left(&v) > 0 && !ret->failed && ret->n < CRN_EXTENTS_MAX)
        if (zip_next(&v, &e) == 0)
            zip_entry_add(&z, &e);
    free(z.pickle);
    free(directory);
}
