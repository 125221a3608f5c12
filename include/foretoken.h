/* SPDX-License-Identifier: Apache-2.0
 *
 * libforetoken: speculative decoding for programs that embed it.
 *
 *   engine    a loaded model with its vocabulary and a pool of KV
 *   session   a text on an engine; a target's session verifies drafts
 *   drafter   drafts behind a text, by a draft model's engine
 *   client    texts from a foretoken server, drafted for on this machine
 *
 * Functions that can fail return 0, or a code above it and a message in *error (which may be NULL);
 * then *out is NULL and nothing is owed. Every handle has one function that frees it, which takes
 * NULL, too. The library never ends the process and never prints.
 *
 * One thread at a time uses an engine with all its sessions and drafters. Each client may be used
 * by any number of threads.
 */
#ifndef FORETOKEN_H
#define FORETOKEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FORETOKEN_DRAFT_MAX 64 /* tokens of a draft */

typedef struct foretoken_engine foretoken_engine;
typedef struct foretoken_session foretoken_session;
typedef struct foretoken_drafter foretoken_drafter;
typedef struct foretoken_client foretoken_client;

typedef struct foretoken_error {
    int code;          /* foretoken_code_name tells what it means */
    char message[384]; /* one line for people */
} foretoken_error;

/* A text is a function of prompt, sampling and seed. All-zero is greedy. */
typedef struct foretoken_sampling {
    float temperature; /* 0: always the most probable token */
    int32_t top_k;     /* 0: off */
    float top_p;       /* 0 or 1: off */
    float min_p;       /* 0: off */
    uint64_t seed;
} foretoken_sampling;

/* The program's version, such as "0.1.0"; a code's name, such as "NOT_FOUND". Static. */
const char *foretoken_version(void);
const char *foretoken_code_name(int code);

/* ---- engine ---- */

/* Loads a GGUF file. kv_tokens: tokens of all texts in the pool at most. threads: 0: all cores. */
int foretoken_engine_open(const char *path, uint32_t kv_tokens, int threads, foretoken_error *error,
                          foretoken_engine **out);
/* Its sessions and drafters must be gone. */
void foretoken_engine_close(foretoken_engine *engine);

/* Equal numbers: a draft model and its target may be used together. */
uint64_t foretoken_engine_vocabulary(const foretoken_engine *engine);
/* The tokens of a prompt: the first `most` of them go to tokens; *n is how many there are. */
int foretoken_engine_tokenize(const foretoken_engine *engine, const char *text, int32_t *tokens,
                              size_t most, size_t *n, foretoken_error *error);
/* The bytes of a token, perhaps a part of a UTF-8 character: the first `most` of them go to bytes.
 * Returns how many there are; 0: a special token, or none. */
size_t foretoken_engine_piece(const foretoken_engine *engine, int32_t token, char *bytes,
                              size_t most);
/* True if a text ends with this token. */
bool foretoken_engine_is_end(const foretoken_engine *engine, int32_t token);

/* ---- session ---- */

/* An empty text. sampling: NULL: greedy. */
int foretoken_session_create(foretoken_engine *engine, const foretoken_sampling *sampling,
                             foretoken_error *error, foretoken_session **out);
void foretoken_session_destroy(foretoken_session *session);

/* Adds tokens to the text: a prompt. Computes nothing. */
int foretoken_session_append(foretoken_session *session, const int32_t *tokens, size_t n,
                             foretoken_error *error);
/* One round: computes draft[n] behind the text in one pass, n up to FORETOKEN_DRAFT_MAX. The text
 * grows by the first *accepted tokens of the draft and by *next, which the model draws behind them.
 * It is the text that rounds without drafts (n 0) make. After an error the text is as before. */
int foretoken_session_verify(foretoken_session *session, const int32_t *draft, size_t n,
                             size_t *accepted, int32_t *next, foretoken_error *error);
/* Number of tokens. */
size_t foretoken_session_length(const foretoken_session *session);
/* Keeps the first n tokens, n up to the length. */
void foretoken_session_truncate(foretoken_session *session, size_t n);

/* ---- drafter ---- */

/* Behind an empty text. The sampling should be the session's: then draws have the same noise. */
int foretoken_drafter_create(foretoken_engine *engine, const foretoken_sampling *sampling,
                             foretoken_error *error, foretoken_drafter **out);
void foretoken_drafter_destroy(foretoken_drafter *drafter);

/* Replaces the text by tokens[n], n > 0. */
int foretoken_drafter_reset(foretoken_drafter *drafter, const int32_t *tokens, size_t n,
                            foretoken_error *error);
/* Writes up to `most` tokens (up to FORETOKEN_DRAFT_MAX) that may follow; *n: how many. It is 0
 * where context or pool are full. */
int foretoken_drafter_draft(foretoken_drafter *drafter, size_t most, int32_t *draft, size_t *n,
                            foretoken_error *error);
/* The verdict on the last draft. */
int foretoken_drafter_advance(foretoken_drafter *drafter, size_t accepted, int32_t next,
                              foretoken_error *error);

/* ---- client ---- */

typedef struct foretoken_client_opts {
    const char *server;     /* "host:port" */
    const char *token;      /* NULL: none */
    const char *draft;      /* GGUF file of the draft model, or */
    const char *vocabulary; /* one with the server's vocabulary: then nothing is drafted */
    bool tls;
    int threads; /* of the draft model; 0: all cores */
} foretoken_client_opts;

typedef struct foretoken_request {
    const char *prompt;
    /* It is a message to the model, rendered by the file's own chat template: INVALID if that
     * refuses it, or runs for longer than 2 s of a processor. False: it is continued. */
    bool chat;
    uint32_t max_tokens; /* 0: until the context is full */
    foretoken_sampling sampling;
    /* New text in UTF-8, perhaps in the middle of a sentence; false: stop. */
    bool (*on_text)(void *ctx, const char *text, size_t n);
    void *ctx;
} foretoken_request;

typedef struct foretoken_answer {
    uint64_t tokens;            /* of the text */
    uint64_t drafted, accepted; /* tokens of drafts; those that became text */
    uint64_t sent_bytes, received_bytes;
} foretoken_answer;

/* Asks the server what it serves, so one must answer. The strings are copied. */
int foretoken_client_open(const foretoken_client_opts *opts, foretoken_error *error,
                          foretoken_client **out);
/* All generations must have returned. */
void foretoken_client_close(foretoken_client *client);
/* Blocks until the text ends. answer may be NULL; it is filled in after an error, too. */
int foretoken_client_generate(foretoken_client *client, const foretoken_request *request,
                              foretoken_answer *answer, foretoken_error *error);

#ifdef __cplusplus
}
#endif

#endif
