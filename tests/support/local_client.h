/* SPDX-License-Identifier: Apache-2.0
 *
 * A client of a verifier in the same process, for tests: callbacks into fields, waits with a limit
 * that ends the test program. */
#ifndef FT_TEST_LOCAL_CLIENT_H
#define FT_TEST_LOCAL_CLIENT_H

#include <pthread.h>

#include "serve/verifier.h"
#include "support/rounds.h"

#define LOCAL_HEARD_MAX 512 /* tokens and verdicts that are kept */

/* A verdict as it was heard, without its path. */
typedef struct local_part {
    uint32_t round, n_next, length, token_us;
    float logprob; /* of the last token; 0 without */
    bool more;
} local_part;

typedef struct local_client {
    ft_verifier *verifier;
    ft_vsession *session;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    /* guarded by lock */
    uint32_t n_opened, n_verdicts, n_gone;
    uint32_t n_over; /* rounds that are over: verdicts behind which no more follow */
    local_part parts[LOCAL_HEARD_MAX];
    int32_t heard[LOCAL_HEARD_MAX]; /* all tokens that verdicts held in `next` */
    uint32_t n_heard;
    ft_msg_opened opened;
    ft_msg_verdict verdict;
    ft_token_logprob logprobs[FT_WIRE_PATH_MAX + 1];
    ft_status gone;
    char message[400];
    uint32_t retry_after_ms;
    /* the test's own; on_part is called on the engine thread with each verdict, under no lock */
    void (*on_part)(struct local_client *c, const ft_msg_verdict *verdict);
    void *user;
    ft_msg_draft draft;
} local_client;

ft_msg_open local_open_msg(const test_text *text, float temperature, uint64_t seed,
                           uint32_t max_tokens);
/* Opens; waits for nothing. */
void local_open(local_client *c, ft_verifier *v, const ft_msg_open *open, const char *credential);
/* The same, counted as a client with this address; "": this process itself. */
void local_open_from(local_client *c, ft_verifier *v, const ft_msg_open *open,
                     const char *credential, const char *address);
/* What resumes this client's session. */
ft_msg_open local_resume_msg(const local_client *c, uint32_t base);
void local_wait_opened(local_client *c);
/* A message of its own with this draft, for ft_vsession_draft. */
ft_client_msg *local_draft_msg(const ft_msg_draft *draft);
/* Sends a copy of it. */
void local_send(ft_vsession *session, const ft_msg_draft *draft);
/* Waits until n verdicts in all have come. False: the session is gone instead. */
bool local_wait_verdict(local_client *c, uint32_t n);
/* The same for n rounds that are over. */
bool local_wait_over(local_client *c, uint32_t n);
ft_status local_wait_gone(local_client *c);
/* Detaches; the struct can be used for another open. */
void local_detach(local_client *c);
/* Closes, waits for on_gone, detaches. */
void local_close(local_client *c);

/* One round: draft, verdict, text. False: gone. */
bool local_round(local_client *c, test_edge *edge, test_text *text);
/* A whole text in a session of its own. `text` holds the prompt. */
void local_generate(ft_verifier *v, const ft_msg_open *open, test_edge *edge, test_text *text);

/* What the page for Prometheus says of a key; 0 where it has no line. */
typedef struct local_key_count {
    uint64_t sessions, opened, forbidden, exhausted;
} local_key_count;
local_key_count local_count_key(ft_verifier *v, const char *name);

#endif
