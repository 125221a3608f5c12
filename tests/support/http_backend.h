/* SPDX-License-Identifier: Apache-2.0
 *
 * A backend for tests of the HTTP server: says again what it was asked, one word a token. The first
 * word of the prompt (the last message) may ask for something else:
 *
 *   prefill    nothing, until cancelled
 *   endless    "tick " again and again, until cancelled
 *   flood      "tick " 20,000 times
 *   once       "tick ", then nothing until cancelled
 *   late       nothing until http_backend_release, then FT_EXHAUSTED
 *   refuse     FT_TOO_LARGE
 *   labour     0.2 s of a processor, then FT_TOO_LARGE
 *   compile    FT_ABORTED
 *   constrain  FT_INVALID, of the field with the constraint
 *   overload   FT_EXHAUSTED, try again after 2.5 s
 *   stranger   FT_UNAUTHENTICATED
 *   forbid     FT_FORBIDDEN
 *   misfit     FT_PRECONDITION
 *   away       FT_UNAVAILABLE
 *   whose      whose key it came with ("nobody's": no name), and the token speed that was asked for
 *   break      "half ", then FT_INTERNAL
 *   lost       looks for a server, then "back"
 *   stopped    "half ", then the request's last stop string ends it
 *   silent     no text
 *   undrafted  whether no_speculation was asked for: "yes" or "no"
 *   pieces     the character U+2026 in two tokens
 *   seed       the seed
 *   tokens     how many token ids came as the prompt
 */
#ifndef FT_TEST_HTTP_BACKEND_H
#define FT_TEST_HTTP_BACKEND_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "http/openai.h"

#define HTTP_BACKEND_MODEL    "test/model-1"
#define HTTP_BACKEND_ALIAS    "other-name"
#define HTTP_BACKEND_CONTEXT  4096
#define HTTP_BACKEND_TEMPLATE "<think>{{ messages }}</think>"
#define HTTP_BACKEND_PIECES   1000
/* Of the longest text that the model's context holds. */
#define HTTP_BACKEND_TEXT_BYTES ((size_t)64 << 10)

typedef struct http_backend {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned started, ended, cancelled; /* generations; guarded by lock */
    unsigned ticks;                     /* that "endless" and "flood" handed over; so too */
    unsigned released;                  /* not 0: "late" goes on; so too */
    atomic_uint rounds;                 /* that were told of */
    bool sick;                          /* /health */
    bool early;                         /* it cannot generate yet */
    struct {
        char bytes[32];
        size_t n;
    } piece[HTTP_BACKEND_PIECES]; /* the bytes of tokens; only those with log-probabilities */
    int32_t n_pieces;             /* guarded by lock */
} http_backend;

void http_backend_init(http_backend *b);
void http_backend_deinit(http_backend *b);
ft_http_backend http_backend_of(http_backend *b);
/* Waits until the counter (one of b's) is at least n; false after a minute. */
bool http_backend_wait(http_backend *b, const unsigned *counter, unsigned n);
void http_backend_release(http_backend *b);
unsigned http_backend_count(http_backend *b, const unsigned *counter);

#endif
