/* SPDX-License-Identifier: BSD-3-Clause */
/* Unix sockets of the node service: packets and descriptors, for the same user only. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fork.h"
#include "service/proto.h"

static cairn_err sock_address(const char *path, struct sockaddr_un *ret, struct crn_errinfo *ei)
{
    memset(ret, 0, sizeof(*ret));
    ret->sun_family = AF_UNIX;
    if (strlen(path) >= sizeof(ret->sun_path))
        return crn_fail(ei, CAIRN_EINVAL, 0,
                        "the socket path '%s' is longer than %zu bytes: set run_dir to a shorter "
                        "directory",
                        path, sizeof(ret->sun_path) - 1);
    memcpy(ret->sun_path, path, strlen(path));
    return CAIRN_OK;
}

static cairn_err make_socket(int *ret, struct crn_errinfo *ei)
{
    int fd = crn_fork_socket(AF_UNIX, SOCK_SEQPACKET);
    int room = (int)CRN_PROTO_MAX;

    if (fd < 0)
        return crn_fail_errno(ei, -fd, "make a socket");
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    *ret = fd;
    return CAIRN_OK;
}

cairn_err crn_sock_listen(const char *path, int *ret_fd, struct crn_errinfo *ei)
{
    struct sockaddr_un sa;
    cairn_err rc;
    int fd = -1;

    rc = sock_address(path, &sa, ei);
    if (rc == CAIRN_OK)
        rc = make_socket(&fd, ei);
    if (rc != CAIRN_OK)
        return rc;
    (void)unlink(path);
    if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 || chmod(path, 0600) < 0 ||
        listen(fd, 256) < 0) {
        rc = crn_fail_errno(ei, errno, "listen at '%s'", path);
        crn_fork_close(fd);
        return rc;
    }
    *ret_fd = fd;
    return CAIRN_OK;
}

cairn_err crn_sock_connect(const char *path, int *ret_fd, struct crn_errinfo *ei)
{
    struct sockaddr_un sa;
    struct ucred peer;
    socklen_t len = sizeof(peer);
    cairn_err rc;
    int fd = -1;

    rc = sock_address(path, &sa, ei);
    if (rc == CAIRN_OK)
        rc = make_socket(&fd, ei);
    if (rc != CAIRN_OK)
        return rc;
    if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
        rc = crn_fail(ei, CAIRN_ESERVICE, errno, "connect to the node service at '%s'", path);
    else if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 || peer.uid != geteuid())
        rc = crn_fail(ei, CAIRN_EPERM, 0, "the service at '%s' belongs to another user", path);
    if (rc != CAIRN_OK) {
        crn_fork_close(fd);
        return rc;
    }
    *ret_fd = fd;
    return CAIRN_OK;
}

cairn_err crn_sock_accept(int listen_fd, int *ret_fd, struct crn_errinfo *ei)
{
    struct ucred peer;
    socklen_t len = sizeof(peer);
    int room = (int)CRN_PROTO_MAX;
    int fd;

    fd = crn_fork_accept(listen_fd);
    if (fd < 0)
        return crn_fail_errno(ei, -fd, "accept a connection");
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len) < 0 || peer.uid != geteuid()) {
        crn_fork_close(fd);
        return crn_fail(ei, CAIRN_EPERM, 0, "user %u may not use this service", peer.uid);
    }
    (void)setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
    *ret_fd = fd;
    return CAIRN_OK;
}

cairn_err crn_sock_send(int fd, const void *buf, size_t len, int pass_fd, struct crn_errinfo *ei)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    ssize_t r;

    if (pass_fd >= 0) {
        memset(&control, 0, sizeof(control));
        msg.msg_control = &control;
        msg.msg_controllen = sizeof(control);
        control.head.cmsg_level = SOL_SOCKET;
        control.head.cmsg_type = SCM_RIGHTS;
        control.head.cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(&control.head), &pass_fd, sizeof(int));
    }
    do
        r = sendmsg(fd, &msg, MSG_NOSIGNAL);
    while (r < 0 && errno == EINTR);
    if (r < 0)
        return crn_fail(ei, CAIRN_ESERVICE, errno, "send %zu bytes over a local socket", len);
    return CAIRN_OK;
}

cairn_err crn_sock_send_msg(int fd, const struct crn_msg *n, int pass_fd, struct crn_errinfo *ei)
{
    struct crn_buf buf = {0};
    cairn_err rc;

    rc = crn_msg_encode(n, &buf, ei);
    if (rc == CAIRN_OK)
        rc = crn_sock_send(fd, buf.data, buf.len, pass_fd, ei);
    crn_buf_free(&buf);
    return rc;
}

/* The descriptor that came along. If a broken peer sends more than one, the kernel truncates and
 * closes the rest. */
static int passed_fd(struct msghdr *msg)
{
    struct cmsghdr *c = CMSG_FIRSTHDR(msg);
    int fd;

    if (c == NULL || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
        c->cmsg_len != CMSG_LEN(sizeof(int)))
        return -1;
    memcpy(&fd, CMSG_DATA(c), sizeof(int));
    return fd;
}

cairn_err crn_sock_recv(int fd, void *buf, size_t size, size_t *ret_len, int *ret_fd,
                        struct crn_errinfo *ei)
{
    union {
        struct cmsghdr head;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec iov = {.iov_base = buf, .iov_len = size};
    struct msghdr msg = {.msg_iov = &iov,
                         .msg_iovlen = 1,
                         .msg_control = &control,
                         .msg_controllen = sizeof(control)};
    int passed;
    ssize_t r;

    *ret_len = 0;
    if (ret_fd != NULL)
        *ret_fd = -1;
    do
        r = recvmsg(fd, &msg, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    while (r < 0 && errno == EINTR);
    if (r < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
        return CAIRN_OK;
    if (r <= 0)
        return crn_fail(ei, CAIRN_ESERVICE, r < 0 ? errno : 0,
                        "the peer of a local socket has closed it");
    passed = passed_fd(&msg);
    if (passed >= 0 && ret_fd == NULL)
        (void)close(passed);
    else if (ret_fd != NULL)
        *ret_fd = passed;
    *ret_len = (size_t)r;
    return CAIRN_OK;
}
