/* SPDX-License-Identifier: BSD-3-Clause */
/* The core of the fake libcuda.so.1 and libamdhip64.so for tests. It behaves like a GPU: a stream
 * is a thread, a copy takes time and moves its bytes when it ends, and the host cannot touch device
 * memory. A graph that is being captured forbids what the real driver forbids (as measured on an
 * H200 with driver 580, CUDA 13.0).
 *
 * Results are those of the two APIs; both use the same numbers. */
#ifndef CRN_TIER_DEVICE_FAKE_H
#define CRN_TIER_DEVICE_FAKE_H

#include <stddef.h>
#include <stdint.h>

#define FAKE_API     __attribute__((visibility("default")))
#define FAKE_DEVICES 2
#define FAKE_MEMORY  ((size_t)64 << 20) /* of each device, unless $FAKE_GPU_MEMORY has other bytes */

enum {
    FAKE_INVALID = 1,
    FAKE_NO_MEMORY = 2,
    FAKE_NO_CONTEXT = 201,
    FAKE_BAD_HANDLE = 400,
    FAKE_NOT_READY = 600,
    FAKE_CAPTURE_UNSUPPORTED = 900,
    FAKE_CAPTURE_INVALIDATED = 901,
    FAKE_CAPTURE_UNJOINED = 904,
    FAKE_CAPTURE_IMPLICIT = 906,
};

/* Memory of a device, registered host memory, or a handle. */
enum fake_kind { FAKE_NOTHING, FAKE_DEVICE_MEMORY, FAKE_HOST_MEMORY, FAKE_STREAM, FAKE_EVENT };

/* Called by the tests, which find them by name in the loaded library. */
FAKE_API int fake_gpu_live(void);  /* objects and contexts not released yet */
FAKE_API int fake_gpu_depth(void); /* the calling thread's context stack */
/* "symbol code [from [count [every]]]; ...": these calls of a function, counted from 1, fail (count
 * 0: all later ones), and again every so many calls. NULL: none fails. Before the library is loaded, $FAKE_GPU_FAIL does the same. */
FAKE_API void fake_gpu_fail(const char *spec);
/* Operations of these kinds do not finish while they are suspended. */
enum { FAKE_HOLD_DOWN = 1, FAKE_HOLD_UP = 2, FAKE_HOLD_INSIDE = 4, FAKE_HOLD_SET = 8 };
FAKE_API void fake_gpu_hold(int kinds);
/* Counters: queries of the state of an event, threads that wait inside the library now, and copies
 * submitted. */
enum { FAKE_COUNT_QUERIES, FAKE_COUNT_WAITING, FAKE_COUNT_COPIES, FAKE_COUNTS };
FAKE_API long fake_gpu_count(int what);

/* Bytes a second of copies between host and device, and of those with pageable host memory; 0: fast.
 * Before the library is loaded, $FAKE_GPU_SPEED ("LINK PAGEABLE") does the same. */
FAKE_API void fake_gpu_speed(double link, double pageable);
/* Copies at once, without the driver: for tests that inspect and change device memory. */
FAKE_API void fake_gpu_poke(void *dst, const void *src, size_t bytes);

size_t fake_memory(void);
size_t fake_memory_left(void); /* of the current device */

/* The current device of the calling thread; -1: none. The API layer supplies it. */
int fake_current(void);
int fake_fails(const char *symbol); /* the code, or 0 */

/* Memory. Freeing waits for all operations of the device. */
int fake_alloc(void **ret, size_t bytes);
int fake_free(void *p);
int fake_register(void *p, size_t bytes);
int fake_unregister(void *p);
int fake_pointer(void *data, int attribute, const void *p, unsigned device_type,
                 unsigned host_type);

/* Streams and events. A stream is a handle, or the legacy or per-thread stream of the current
 * device. */
struct fake_names {
    void *legacy, *per_thread;
};
extern struct fake_names fake_names;
int fake_stream_create(void **ret, unsigned flags);
int fake_event_create(void **ret);
int fake_destroy(void *handle, enum fake_kind kind);
int fake_stream_device(void *stream); /* -1: no stream */
int fake_record(void *event, void *stream);
int fake_stream_wait(void *stream, void *event);
int fake_event_query(void *event);
int fake_event_wait(void *event);
int fake_stream_sync(void *stream);
int fake_context_sync(void);
int fake_copy(void *dst, const void *src, size_t bytes, void *stream);
int fake_set(void *dst, unsigned word, size_t words, void *stream);

/* Captures. */
int fake_mode_exchange(int *mode);
int fake_capture_begin(void *stream, int mode);
int fake_capture_end(void *stream);
int fake_capture_state(void *stream, int *ret);

/* Retained contexts. */
int fake_retain(int device, int by);
int fake_is_retained(int device);

#endif
