/* SPDX-License-Identifier: BSD-3-Clause */
/* Scrubbing of what a service holds (scrub = PERIOD): while its job is idle, it reads the captures in
 * memory, their local copies and the parity that it keeps, compares them with their checksums, and
 * repairs what is damaged: data from the local copy or from the other nodes of the set, the local copy
 * from memory, parity from the data of the set. What it finds goes into the journal of the name. */
#ifndef CRN_SERVICE_HELD_SCRUB_H
#define CRN_SERVICE_HELD_SCRUB_H

#include "service/job.h"

/* Loop, about once a second: starts the next slice if the job is idle. */
void crn_held_scrub_tick(struct crn_job *job, int64_t now_ns);
/* Loop: a slice has ended. */
void crn_held_scrub_done(struct crn_job *job, const struct crn_work *w);
/* Flusher: a slice. */
void crn_held_scrub_work(struct crn_job *job, struct crn_work *w);

#endif
