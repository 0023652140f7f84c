/* SPDX-License-Identifier: BSD-3-Clause */
/* Storage of jobs and users: arrays of fixed size, allocated once, found by hash, chained by
 * index. A job's key is user and id, so no user can report for another user's job. There are as
 * many user entries as connections, jobs and accounts of jobs together, so one is always free. */
#include "broker/turns_priv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static cairn_err alloc_tokens(struct crn_turns *t, struct crn_errinfo *ei)
{
    size_t cap = (size_t)t->cfg.max_jobs * CRN_BP_MAX_ASKS;
    size_t i;

    t->token = calloc(t->cfg.ntokens, sizeof(*t->token));
    if (t->token == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "no memory for %zu tokens", t->cfg.ntokens);
    for (i = 0; i < t->cfg.ntokens; i++) {
        struct token *k = &t->token[i];

        k->cfg = t->cfg.token[i];
        k->first_holder = NONE;
        k->queue = calloc(cap, sizeof(*k->queue));
        k->queue_rid = calloc(cap, sizeof(*k->queue_rid));
        if (k->queue == NULL || k->queue_rid == NULL)
            return crn_fail(ei, CAIRN_ENOMEM, 0, "no memory for the queue of '%s'", k->cfg.name);
        k->dry = k->cfg.is_dry ? crn_dry_new(t->cfg.max_jobs) : NULL;
        if (k->cfg.is_dry && k->dry == NULL)
            return crn_fail(ei, CAIRN_ENOMEM, 0, "no memory for the dry run of '%s'", k->cfg.name);
    }
    t->cfg.token = NULL; /* belongs to the caller; copied above */
    return CAIRN_OK;
}

static cairn_err alloc_all(struct crn_turns *t, struct crn_errinfo *ei)
{
    size_t cap = (size_t)t->cfg.max_jobs * CRN_BP_MAX_ASKS;

    t->nbuckets = 64;
    while (t->nbuckets < t->cfg.max_jobs)
        t->nbuckets *= 2;
    t->busy = calloc(cap, sizeof(*t->busy));
    t->job = calloc(t->cfg.max_jobs, sizeof(*t->job));
    t->conn = calloc(t->cfg.max_conns, sizeof(*t->conn));
    t->nusers = t->cfg.max_conns + t->cfg.max_jobs * (t->cfg.by_account ? 2 : 1);
    t->user = calloc(t->nusers, sizeof(*t->user));
    t->job_bucket = calloc(t->nbuckets, sizeof(*t->job_bucket));
    t->user_bucket = calloc(t->nbuckets, sizeof(*t->user_bucket));
    t->score = calloc(cap, sizeof(*t->score));
    t->order = calloc(cap, sizeof(*t->order));
    if (t->busy == NULL || t->job == NULL || t->conn == NULL || t->user == NULL ||
        t->job_bucket == NULL || t->user_bucket == NULL || t->score == NULL || t->order == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "no memory for %u jobs", t->cfg.max_jobs);
    return alloc_tokens(t, ei);
}

static void idle_push(struct crn_turns *t, uint32_t u)
{
    t->user[u].idle_prev = t->idle_tail;
    t->user[u].idle_next = NONE;
    if (t->idle_tail == NONE)
        t->idle_head = u;
    else
        t->user[t->idle_tail].idle_next = u;
    t->idle_tail = u;
}

static void idle_remove(struct crn_turns *t, uint32_t u)
{
    const struct user *user = &t->user[u];

    if (user->idle_prev == NONE)
        t->idle_head = user->idle_next;
    else
        t->user[user->idle_prev].idle_next = user->idle_next;
    if (user->idle_next == NONE)
        t->idle_tail = user->idle_prev;
    else
        t->user[user->idle_next].idle_prev = user->idle_prev;
}

/* Frees all entries, empties all buckets. */
static void link_tables(struct crn_turns *t)
{
    uint32_t i;

    for (i = 0; i < t->nbuckets; i++)
        t->job_bucket[i] = t->user_bucket[i] = NONE;
    for (i = 0; i < t->cfg.max_jobs; i++)
        t->job[i].hash_next = i + 1 < t->cfg.max_jobs ? i + 1 : NONE;
    t->idle_head = t->idle_tail = NONE;
    for (i = 0; i < t->nusers; i++)
        idle_push(t, i);
    t->free_job = 0;
    t->heard = t->cut = t->dirty = (struct turns_list){NONE, NONE};
}

cairn_err crn_turns_new(const struct crn_turns_config *cfg, int64_t now_ns, struct crn_turns **ret,
                        struct crn_errinfo *ei)
{
    struct crn_turns *t;
    cairn_err rc;
    size_t i;

    if (cfg->ntokens == 0 || cfg->max_jobs == 0 || cfg->max_conns == 0)
        return crn_fail(ei, CAIRN_EINVAL, 0, "a broker needs a token, a job and a connection");
    for (i = 0; i < cfg->ntokens; i++)
        if (cfg->token[i].slots == 0)
            return crn_fail(ei, CAIRN_EINVAL, 0, "token '%s' has no slots", cfg->token[i].name);
    t = calloc(1, sizeof(*t));
    if (t == NULL)
        return crn_fail(ei, CAIRN_ENOMEM, 0, "no memory for the broker");
    t->cfg = *cfg;
    rc = alloc_all(t, ei);
    if (rc != CAIRN_OK) {
        crn_turns_free(t);
        return rc;
    }
    link_tables(t);
    t->settled_ns = now_ns + cfg->settle_ns;
    t->next_id = 1;
    t->next_status = 1;
    *ret = t;
    return CAIRN_OK;
}

void crn_turns_free(struct crn_turns *t)
{
    size_t i;

    if (t == NULL)
        return;
    for (i = 0; t->token != NULL && i < t->cfg.ntokens; i++) {
        free(t->token[i].queue);
        free(t->token[i].queue_rid);
        crn_dry_free(t->token[i].dry);
    }
    free(t->token);
    free(t->busy);
    free(t->job);
    free(t->conn);
    free(t->user);
    free(t->job_bucket);
    free(t->user_bucket);
    free(t->score);
    free(t->order);
    free(t);
}

void crn_turns_list_remove(struct crn_turns *t, uint32_t j, enum link_kind kind)
{
    struct turns_link *l = &t->job[j].link[kind];

    if (l->in == NULL)
        return;
    if (l->prev == NONE)
        l->in->head = l->next;
    else
        t->job[l->prev].link[kind].next = l->next;
    if (l->next == NONE)
        l->in->tail = l->prev;
    else
        t->job[l->next].link[kind].prev = l->prev;
    l->in = NULL;
}

void crn_turns_list_move(struct crn_turns *t, struct turns_list *list, uint32_t j,
                         enum link_kind kind)
{
    struct turns_link *l = &t->job[j].link[kind];

    crn_turns_list_remove(t, j, kind);
    l->in = list;
    l->prev = list->tail;
    l->next = NONE;
    if (list->tail == NONE)
        list->head = j;
    else
        t->job[list->tail].link[kind].next = j;
    list->tail = j;
}

static uint32_t *job_chain(const struct crn_turns *t, uint32_t user, const uint8_t *id)
{
    uint8_t key[20];

    memcpy(key, &user, 4);
    memcpy(key + 4, id, 16);
    return &t->job_bucket[crn_hash(key, sizeof(key)) & (t->nbuckets - 1)];
}

uint32_t crn_turns_find_job(const struct crn_turns *t, uint32_t user, const uint8_t *id)
{
    uint32_t j = *job_chain(t, user, id);

    while (j != NONE && (t->job[j].user != user || memcmp(t->job[j].id, id, 16) != 0))
        j = t->job[j].hash_next;
    return j;
}

uint32_t crn_turns_add_job(struct crn_turns *t, uint32_t user, const uint8_t *id)
{
    uint32_t *chain = job_chain(t, user, id);
    uint32_t j = t->free_job;
    struct turns_job *job;

    if (j == NONE || t->user[user].njobs >= t->cfg.max_user_jobs)
        return NONE;
    job = &t->job[j];
    t->free_job = job->hash_next;
    memset(job, 0, sizeof(*job));
    memcpy(job->id, id, sizeof(job->id));
    job->is_used = 1;
    job->user = job->payer = user;
    job->conn = NONE;
    job->hash_next = *chain;
    *chain = j;
    t->user[user].refs += 2;
    t->user[user].njobs++;
    t->njobs++;
    return j;
}

void crn_turns_remove_job(struct crn_turns *t, uint32_t j)
{
    struct turns_job *job = &t->job[j];
    uint32_t *at = job_chain(t, job->user, job->id);

    crn_turns_list_remove(t, j, LINK_AGE);
    crn_turns_list_remove(t, j, LINK_DIRTY);
    if (job->conn != NONE)
        t->conn[job->conn].job = NONE;
    while (*at != j)
        at = &t->job[*at].hash_next;
    *at = job->hash_next;
    t->user[job->user].njobs--;
    crn_turns_unref_user(t, job->user);
    crn_turns_unref_user(t, job->payer);
    job->is_used = 0;
    job->hash_next = t->free_job;
    t->free_job = j;
    t->njobs--;
}

static uint32_t *user_chain(const struct crn_turns *t, const char *name)
{
    return &t->user_bucket[crn_hash(name, strlen(name)) & (t->nbuckets - 1)];
}

static uint32_t find_user(const struct crn_turns *t, const char *name)
{
    uint32_t u = *user_chain(t, name);

    while (u != NONE && strcmp(t->user[u].name, name) != 0)
        u = t->user[u].hash_next;
    return u;
}

uint32_t crn_turns_user_conns(const struct crn_turns *t, const char *user)
{
    uint32_t u = find_user(t, user);

    return u != NONE ? t->user[u].nconns : 0;
}

/* Reuses the entry of the user that has been idle for longest. */
static uint32_t new_user(struct crn_turns *t, const char *name)
{
    uint32_t u = t->idle_head;
    uint32_t *at;

    idle_remove(t, u);
    if (t->user[u].name[0] != '\0') {
        for (at = user_chain(t, t->user[u].name); *at != u; at = &t->user[*at].hash_next)
            ;
        *at = t->user[u].hash_next;
    }
    memset(&t->user[u], 0, sizeof(t->user[u]));
    (void)snprintf(t->user[u].name, sizeof(t->user[u].name), "%s", name);
    at = user_chain(t, name);
    t->user[u].hash_next = *at;
    *at = u;
    return u;
}

uint32_t crn_turns_ref_user(struct crn_turns *t, const char *name)
{
    uint32_t u = find_user(t, name);

    if (u == NONE)
        u = new_user(t, name);
    else if (t->user[u].refs == 0)
        idle_remove(t, u);
    t->user[u].refs++;
    return u;
}

/* What the user has used is remembered as long as there is room: nobody gets a new share by logging
 * in again. */
void crn_turns_unref_user(struct crn_turns *t, uint32_t u)
{
    if (--t->user[u].refs == 0)
        idle_push(t, u);
}
