/* SPDX-License-Identifier: BSD-3-Clause */
/* The recommended configuration as a file. A key that this version does not know, or whose value
 * it refuses, is written as a comment, so the file can always be read. */
#include "tune/tuner.h"

#include "base/config.h"

static void advice_put(struct crn_config *cfg, FILE *out, const char *key, const char *value)
{
    int is_known = crn_config_set(cfg, key, value, "tune", NULL) == CAIRN_OK;

    (void)fprintf(out, "%s%s = %s\n", is_known ? "" : "; ", key, value);
}

static void put_bytes(struct crn_config *cfg, FILE *out, const char *key, uint64_t bytes)
{
    char text[32];

    crn_format_bytes(bytes, text, sizeof(text));
    advice_put(cfg, out, key, text);
}

static void put_number(struct crn_config *cfg, FILE *out, const char *key, uint64_t n)
{
    char text[32];

    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)n);
    advice_put(cfg, out, key, text);
}

int crn_tune_config(const struct crn_tuning *t, const char *dir, FILE *out)
{
    const struct crn_probe *b = &t->best;
    struct crn_config cfg;

    crn_config_defaults(&cfg);
    (void)fprintf(out, "; Measured by cairn tune in %s: %.2f GiB/s, durable.\n", dir,
                  t->best_rate / 0x1p30);
    put_number(&cfg, out, "writers", b->writers);
    put_bytes(&cfg, out, "block_bytes", b->block_bytes);
    put_number(&cfg, out, "blocks", 2 * (uint64_t)b->writers);
    if (cfg.chunk_bytes > b->block_bytes)
        put_bytes(&cfg, out, "chunk_bytes", b->block_bytes);
    advice_put(&cfg, out, "io", crn_method_name(b->method));
    if (b->files > 1)
        (void)fprintf(out,
                      "; %u files of one leader were faster than one: stripe its file over as many "
                      "targets,\n; or use several leaders for each file.\n",
                      b->files);
    (void)fprintf(out,
                  "\n; For a machine file of cairn sim flush:\n"
                  "; nic_out = %.3f GiB/s\n; writer = %.3f GiB/s\n; best_writers = %u\n",
                  t->best_rate / 0x1p30, t->one_rate / 0x1p30, b->writers);
    crn_config_fini(&cfg);
    return ferror(out) ? -1 : 0;
}
