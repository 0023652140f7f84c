/* SPDX-License-Identifier: BSD-3-Clause */
/* Pipelines: predictor -> filter -> codec, as a short list of stages with one argument each. As
 * text "lorenzo:3,magnitude" (configuration, reports); in binary two bytes per stage. */
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

/* Names and arguments, separated by commas; a missing argument means the codec's default.
 * CAIRN_EINVAL names the error, CAIRN_ENOTSUP a stage that this build cannot encode. */
CAIRN_CHECKED cairn_err crn_pipe_parse(const char *text, struct crn_pipe *ret,
                                       struct crn_errinfo *ei);
/* The codecs of paper 2 (section IV, table I): FPC for doubles, fpzip for floats, a fast LZ for
 * the rest, then gzip over their output. Variables too small for a first pass use gzip alone. */
const char *crn_pipe_paper(cairn_type type, int is_small);
void crn_pipe_text(const struct crn_pipe *p, char ret[CRN_PIPE_TEXT]);
int crn_pipe_equal(const struct crn_pipe *a, const struct crn_pipe *b);

/* Is it lossy, and does it need the older version? */
int crn_pipe_is_lossy(const struct crn_pipe *p);
int crn_pipe_needs_previous(const struct crn_pipe *p);
/* Removes the need for the older version: predicts from the previous element or row instead. */
void crn_pipe_forget_previous(struct crn_pipe *p);
/* Does it use runs? Then a chunk must carry them. */
int crn_pipe_needs_runs(const struct crn_pipe *p);
/* Can this build encode every stage, and does each suit such data? */
int crn_pipe_fits(const struct crn_pipe *p, const struct crn_data *data);

size_t crn_pipe_put(const struct crn_pipe *p,
                    unsigned char *dst); /* at most 1 + 2 * STAGES bytes */
/* CAIRN_EDAMAGED, or CAIRN_EFORMAT for an unknown stage. */
CAIRN_CHECKED cairn_err crn_pipe_get(struct crn_view *v, struct crn_pipe *ret,
                                     struct crn_errinfo *ei);

/* Runs the stages. The result lies in scratch memory of w (CRN_SLOT_PIPE_A or B), or is src
 * itself. sizes[i] is the output size of stage i. n is at most CRN_CHUNK_MAX_BYTES and not 0. */
CAIRN_CHECKED cairn_err crn_pipe_encode(const struct crn_pipe *p, struct crn_encode_work *w,
                                        const struct crn_data *data, const void *src, size_t n,
                                        const unsigned char **ret, size_t sizes[CRN_PIPE_STAGES],
                                        struct crn_errinfo *ei);
/* Reverses the stages: dst gets exactly dst_n bytes. sizes[i] is the output size of stage i; the
 * last one is the size of src. They are checked before memory is allocated. */
CAIRN_CHECKED cairn_err crn_pipe_decode(const struct crn_pipe *p, struct crn_encode_work *w,
                                        const struct crn_data *data, const void *src,
                                        const size_t sizes[CRN_PIPE_STAGES], void *dst,
                                        size_t dst_n, struct crn_errinfo *ei);

#endif
