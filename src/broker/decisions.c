/* SPDX-License-Identifier: BSD-3-Clause */
#include "broker/decisions.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"

static int put_decision(FILE *out, const struct crn_turns_decision *d, int64_t time_ns)
{
    time_t seconds = (time_t)(time_ns / 1000000000);
    struct crn_json j;
    char date[32] = "", time[40];
    struct tm utc;

    if (gmtime_r(&seconds, &utc) != NULL)
        (void)strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &utc);
    (void)snprintf(time, sizeof(time), "%s.%03dZ", date, (int)(time_ns / 1000000 % 1000));
    crn_json_begin(&j, out);
    crn_json_object(&j, NULL);
    crn_json_str(&j, "time", time);
    crn_json_str(&j, "token", d->token);
    crn_json_str(&j, "policy", d->policy);
    crn_json_bool(&j, "dry_run", d->is_dry);
    crn_json_str(&j, "user", d->user);
    crn_json_str(&j, "job", d->job);
    crn_json_str(&j, "kind", crn_io_kind_name(d->kind));
    crn_json_u64(&j, "nodes", d->nodes);
    crn_json_u64(&j, "bytes", d->bytes);
    crn_json_f64(&j, "waited_s", (double)(d->at_ns - d->since_ns) * 1e-9);
    crn_json_f64(&j, "expected_s", (double)d->duration_ns * 1e-9);
    crn_json_u64(&j, "waiting", d->waiting);
    crn_json_u64(&j, "beside", d->beside);
    crn_json_end_object(&j);
    return crn_json_finish(&j);
}

cairn_err crn_decisions_append(const char *path, const struct crn_turns_decision *d,
                               int64_t time_ns, struct crn_errinfo *ei)
{
    cairn_err rc = CAIRN_OK;
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    int fd;

    if (out == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, errno, "no memory to note a decision");
    if (put_decision(out, d, time_ns) != 0)
        rc = crn_fail(ei, CAIRN_ENOMEM, ENOMEM, "no memory to note a decision");
    if (fclose(out) != 0 && rc == CAIRN_OK)
        rc = crn_fail(ei, CAIRN_ENOMEM, errno, "no memory to note a decision");
    fd = rc == CAIRN_OK ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0640)
                        : -1;
    if (rc == CAIRN_OK && fd < 0)
        rc = crn_fail_errno(ei, errno, "open '%s'", path);
    if (fd >= 0 && write(fd, text, len) != (ssize_t)len)
        rc = crn_fail_errno(ei, errno != 0 ? errno : EIO, "write '%s'", path);
    if (fd >= 0)
        (void)close(fd);
    free(text);
    return rc;
}
