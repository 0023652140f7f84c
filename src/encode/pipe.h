/* SPDX-License-Identifier: BSD-3-Clause */
/* Pipelines: predictor -> filter -> codec, as a short list of stages with one argument each. In text
 * "lorenzo:3,magnitude" (configuration, reports); in bytes two for each stage. */
#ifndef CRN_PIPE_H
#define CRN_PIPE_H

#include "base/buf.h"
#include "encode/codec.h"

#define CRN_PIPE_STAGES 4
#define CRN_PIPE_TEXT   96

struct crn_pipe {
    uint8_t n; /* 0: raw */
    struct {
        uint8_t id;
        uint8_t arg;
    } stage[CRN_PIPE_STAGES];
};

/* Names and arguments, separated by commas; without an argument the codec's default is taken.
 * CAIRN_EINVAL names what is wrong, CAIRN_ENOTSUP a stage that this build cannot encode. */
CAIRN_CHECKED cairn_err crn_pipe_parse(const char *text, struct crn_pipe *ret,
                                       struct crn_errinfo *ei);
/* The codecs of paper 2 (section IV, table I): FPC for doubles, fpzip for floats, a fast LZ for the
 * rest, and gzip over what they give; variables that are too small for a first pass have gzip alone. */
const char *crn_pipe_paper(cairn_type type, int is_small);
void crn_pipe_text(const struct crn_pipe *p, char ret[CRN_PIPE_TEXT]);
int crn_pipe_equal(const struct crn_pipe *a, const struct crn_pipe *b);

/* Whether it may lose something, and whether it needs the older version. */
int crn_pipe_is_lossy(const struct crn_pipe *p);
int crn_pipe_needs_previous(const struct crn_pipe *p);
/* The same without it: the element before, or the row, is what remains to predict from. */
void crn_pipe_forget_previous(struct crn_pipe *p);
/* Whether it looks at runs: then a chunk must carry them. */
int crn_pipe_needs_runs(const struct crn_pipe *p);
/* Whether every stage can encode here and is of use for such data. */
int crn_pipe_fits(const struct crn_pipe *p, const struct crn_data *data);

size_t crn_pipe_put(const struct crn_pipe *p,
                    unsigned char *dst); /* at most 1 + 2 * STAGES bytes */
/* CAIRN_EDAMAGED, or CAIRN_EFORMAT for a stage that is not known. */
CAIRN_CHECKED cairn_err crn_pipe_get(struct crn_view *v, struct crn_pipe *ret,
                                     struct crn_errinfo *ei);

/* Runs the stages. The result lies in scratch memory of w (CRN_SLOT_PIPE_A or B), or is src itself.
 * sizes[i] is how many bytes stage i gave. n is at most CRN_CHUNK_MAX_BYTES and not 0. */
CAIRN_CHECKED cairn_err crn_pipe_encode(const struct crn_pipe *p, struct crn_encode_work *w,
                                        const struct crn_data *data, const void *src, size_t n,
                                        const unsigned char **ret, size_t sizes[CRN_PIPE_STAGES],
                                        struct crn_errinfo *ei);
/* Undoes them: dst gets exactly dst_n bytes. sizes[i] is what stage i had given; the last one is the
 * size of src. They are checked before memory is taken. */
CAIRN_CHECKED cairn_err crn_pipe_decode(const struct crn_pipe *p, struct crn_encode_work *w,
                                        const struct crn_data *data, const void *src,
                                        const size_t sizes[CRN_PIPE_STAGES], void *dst,
                                        size_t dst_n, struct crn_errinfo *ei);

#endif
