/* SPDX-License-Identifier: BSD-3-Clause */
/* A screen on a terminal, with the escape sequences that all terminals share since the VT100. */
#include "cli/top.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static struct termios before; /* how the terminal was; valid if has_keys */
static int has_keys;          /* standard input is a terminal too */
static atomic_int ending, stopping;

static void on_end(int sig)
{
    atomic_store(&ending, sig);
}

static void on_stop(int sig)
{
    atomic_store(&stopping, sig);
}

static void on_resize(int sig)
{
    (void)sig; /* poll() returns, and the next drawing asks for the size */
}

static void catch_signal(int sig, void (*handler)(int))
{
    struct sigaction act = {.sa_handler = handler}; /* without SA_RESTART: poll() returns */

    (void)sigaction(sig, &act, NULL);
}

static void take_terminal(void)
{
    struct termios raw = before;

    if (has_keys) {
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        raw.c_cc[VMIN] = 1;
        raw.c_cc[VTIME] = 0;
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    (void)fputs("\033[?1049h\033[?25l", stdout); /* the other screen; no cursor */
    (void)fflush(stdout);
}

static void give_terminal(void)
{
    (void)fputs("\033[?25h\033[?1049l", stdout);
    (void)fflush(stdout);
    if (has_keys)
        (void)tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

int crn_screen_begin(void)
{
    if (!isatty(STDOUT_FILENO))
        return -1;
    has_keys = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &before) == 0;
    catch_signal(SIGINT, on_end);
    catch_signal(SIGTERM, on_end);
    catch_signal(SIGHUP, on_end);
    catch_signal(SIGTSTP, on_stop);
    catch_signal(SIGWINCH, on_resize);
    take_terminal();
    return 0;
}

void crn_screen_end(void)
{
    give_terminal();
}

/* Columns of a line, without its escape sequences; *ret_bytes: how many bytes fit. */
static void fit_line(const char *line, size_t len, size_t columns, size_t *ret_bytes)
{
    size_t used = 0;
    size_t i = 0;

    while (i < len) {
        if (line[i] == '\033') {
            i += strcspn(line + i, "m") + 1;
            continue;
        }
        if (((unsigned char)line[i] & 0xc0) != 0x80 && used++ == columns)
            break;
        i++;
    }
    *ret_bytes = i < len ? i : len;
}

void crn_screen_draw(const char *text)
{
    struct winsize size = {.ws_row = 24, .ws_col = 80};
    size_t rows;

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0 || size.ws_col == 0)
        size = (struct winsize){.ws_row = 24, .ws_col = 80};
    (void)fputs("\033[H", stdout);
    for (rows = size.ws_row; rows > 0 && *text != '\0'; rows--) {
        size_t len = strcspn(text, "\n");
        size_t fits;

        fit_line(text, len, size.ws_col, &fits);
        (void)printf("%.*s\033[0m\033[K%s", (int)fits, text, rows > 1 ? "\r\n" : "");
        text += len + (text[len] == '\n');
    }
    (void)fputs("\033[J", stdout);
    (void)fflush(stdout);
}

int crn_screen_key(int64_t timeout_ms)
{
    struct pollfd in = {.fd = has_keys ? STDIN_FILENO : -1, .events = POLLIN};
    unsigned char key = 0;
    int n = poll(&in, 1, (int)timeout_ms);

    if (atomic_load(&ending) != 0)
        return -1;
    if (atomic_exchange(&stopping, 0) != 0) {
        give_terminal();
        (void)raise(SIGSTOP);
        take_terminal();
        return 0;
    }
    if (n <= 0)
        return 0;
    if ((in.revents & (POLLHUP | POLLERR)) != 0 || read(STDIN_FILENO, &key, 1) != 1)
        return -1; /* the terminal is gone */
    return key;
}
