/* SPDX-License-Identifier: BSD-3-Clause */
/* A process that knows the addresses of a job, but not its secret, pretends to be rank 1: its
 * messages are refused and logged, and those of the real rank arrive. */
#include <sys/mman.h>

#include "ranks.h"

#include "comm/ucx_link.h"

static const uint64_t secret[2] = {1, 2}, guess[2] = {1, 3};

static struct ucx_link *join(struct attendance *a, uint32_t as)
{
    struct crn_errinfo ei = {0};
    struct ucx_card card = {.rank = as, .id = 77};
    struct ucx_card *cards = calloc((size_t)a->ranks, sizeof(*cards));
    unsigned char *addresses = calloc((size_t)a->ranks, BLOB_BYTES);
    unsigned char mine[BLOB_BYTES] = {0};
    struct ucx_net *net;
    struct ucx_link *l;
    void *address;
    size_t bytes;

    REQUIRE(cards != NULL && addresses != NULL);
    REQUIRE(crn_ucx_net_open(&net, &ei) == CAIRN_OK);
    memcpy(net->secret, a->rank < 2 ? secret : guess, sizeof(net->secret));
    REQUIRE(crn_ucx_link_open(net, &l, &ei) == CAIRN_OK);
    crn_ucx_net_put(net);
    REQUIRE(crn_ucx_link_address(l, &address, &bytes, &ei) == CAIRN_OK && bytes <= sizeof(mine));
    memcpy(mine, address, bytes);
    free(address);
    REQUIRE(meet(a, &card, sizeof(card), cards) == 0);
    REQUIRE(meet(a, mine, sizeof(mine), addresses) == 0);
    REQUIRE(crn_ucx_link_join(l, as, 2, cards, addresses, BLOB_BYTES, &ei) == CAIRN_OK);
    return l;
}

static void send_text(struct ucx_link *l, const char *text)
{
    struct crn_errinfo ei = {0};

    REQUIRE(crn_ucx_send(l, UCX_POST, 0, 0, text, strlen(text) + 1, NULL, &ei) == CAIRN_OK);
    while (l->unsent > 0)
        crn_ucx_progress(l);
}

/* Standard error goes to a file in memory, whose descriptor it returns. */
static int keep_log(void)
{
    int fd = memfd_create("log", 0);

    REQUIRE(fd >= 0 && dup2(fd, STDERR_FILENO) >= 0);
    return fd;
}

/* One line, which says what was refused and by which rank. */
static void check_log(int fd)
{
    char text[1000] = "";

    REQUIRE(pread(fd, text, sizeof(text) - 1, 0) > 0);
    REQUIRE(strstr(text, "warn") != NULL && strstr(text, "rank 0: refused messages") != NULL);
    REQUIRE(strchr(text, '\n') == strrchr(text, '\n'));
}

static void party(struct attendance *a, void *arg)
{
    int log = a->rank == 0 ? keep_log() : -1;
    struct ucx_link *l = join(a, a->rank > 0 ? 1 : 0);
    volatile int *may_send = &a->m->flag;

    (void)arg;
    if (a->rank == 2)
        send_text(l, "from a stranger");
    while (a->rank == 1 && !*may_send)
        (void)usleep(1000);
    if (a->rank == 1)
        send_text(l, "from rank 1");
    while (a->rank == 0 && l->strangers == 0)
        crn_ucx_progress(l);
    if (a->rank == 0) {
        REQUIRE(l->posts == NULL);
        check_log(log);
        *may_send = 1;
        while (l->posts == NULL)
            crn_ucx_progress(l);
        REQUIRE(strcmp(l->posts->data, "from rank 1") == 0 && l->posts->next == NULL);
    }
    (void)pthread_barrier_wait(&a->m->barrier);
    crn_ucx_link_close(l);
}

int main(void)
{
    REQUIRE(run_ranks(3, party, NULL) == 0);
    (void)puts("ok");
    return 0;
}
