/* SPDX-License-Identifier: Apache-2.0
 *
 * The wire's messages as plain structs, and their codec over protobuf-c. Decoding checks everything
 * an outsider can get wrong (sizes, counts, parents, ids, numbers) before it allocates from it; a
 * message that decodes is safe to use. See proto/foretoken.proto for the meaning of the fields.
 */
#ifndef FT_WIRE_MESSAGES_H
#define FT_WIRE_MESSAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#define FT_PROTOCOL       1
#define FT_SESSION_ID_LEN 16
#define FT_WIRE_TREE_MAX  256 /* nodes of a Draft; equals spec's FT_TREE_MAX */
#define FT_WIRE_TOP_MAX   20  /* top_logprobs at most, as OpenAI has it */
#define FT_WIRE_PATH_MAX  FT_WIRE_TREE_MAX
#define FT_WIRE_NEXT_MAX  (FT_WIRE_TREE_MAX + 1) /* tokens of one Verdict, path and next together */
#define FT_WIRE_RUN_MAX   1024                   /* tokens of one run */
/* The largest ServerMessage that a decoder takes; the largest legal Verdict is about 70 KB. */
#define FT_SERVER_MSG_MAX_BYTES (128 * 1024)

typedef struct ft_session_id {
    uint8_t bytes[FT_SESSION_ID_LEN];
} ft_session_id;

typedef struct ft_msg_sampling {
    float temperature, top_p, min_p;
    uint32_t top_k;
    uint64_t seed;
} ft_msg_sampling;

typedef struct ft_msg_open {
    uint32_t protocol;
    uint64_t vocab_fingerprint;
    char model[128];
    ft_msg_sampling sampling;
    float slo_tokens_per_s;
    uint32_t rule;
    uint32_t n_prompt;
    const int32_t *prompt; /* [n_prompt]; decoded: inside the message's own memory */
    bool resume;           /* then session, secret and base are set and the prompt is empty */
    ft_session_id session, secret;
    uint32_t base;
    uint32_t max_tokens;
    bool logprobs;
    uint32_t top_logprobs;
} ft_msg_open;

typedef struct ft_msg_draft {
    uint32_t round, base;
    uint32_t n;   /* nodes; 0: the server decodes by itself */
    uint32_t run; /* without nodes: by so many tokens, 0 as 1; with nodes: 0 */
    int32_t token[FT_WIRE_TREE_MAX];
    int32_t parent[FT_WIRE_TREE_MAX]; /* -1: the text's end; else < own index */
    uint32_t draft_us, rtt_us;
    /* 0: an ordinary draft. Else it is an *early* one, sent before the verdict on the round before: it
     * extends that round's tree, `base` is that round's, there are nodes, and the i-th of those with
     * parent -1 is a child of that tree's node under[i]. */
    uint32_t n_under;
    uint8_t under[FT_WIRE_TREE_MAX];
} ft_msg_draft;

typedef struct ft_msg_limits {
    uint32_t max_tree, max_context, session_ttl_s, max_top_logprobs;
    bool early_drafts; /* are understood */
} ft_msg_limits;

typedef struct ft_msg_opened {
    ft_session_id session, secret;
    uint32_t cached_tokens, length, last_round;
    ft_msg_limits limits;
    char model[128];
} ft_msg_opened;

typedef struct ft_token_logprob {
    float logprob; /* minus infinity travels as -9999 */
    uint32_t n_top;
    struct {
        int32_t token;
        float logprob;
    } top[FT_WIRE_TOP_MAX];
} ft_token_logprob;

typedef enum ft_finish { FT_FINISH_NONE, FT_FINISH_STOP, FT_FINISH_LENGTH } ft_finish;

typedef struct ft_msg_verdict {
    uint32_t round;
    uint32_t n_path;
    uint32_t path[FT_WIRE_PATH_MAX]; /* rising node numbers, each below FT_WIRE_TREE_MAX */
    uint32_t n_next;                 /* 0: the text finished inside the path */
    int32_t next[FT_WIRE_NEXT_MAX];  /* tokens behind the path */
    bool more;                       /* of a run: another verdict of this round follows */
    uint32_t length;
    uint32_t n_logprobs;        /* 0, or n_path + n_next */
    ft_token_logprob *logprobs; /* [n_logprobs]; decoded: inside the message's own memory */
    uint32_t queue_us, verify_us;
    uint32_t others_us; /* others kept the engine busy behind the verdict before; 0: not known */
    ft_finish finish;
    bool
        early_taken; /* the next round is under way: what the early draft has behind this verdict */
    uint32_t hint_max_tree;  /* 0: none */
    bool hint_no_trees;      /* trees are not verified: ask for runs */
    uint32_t hint_row_price; /* of a node, in thousandths of a token of others'; 0: none */
    uint32_t hint_token_us;  /* what a token of a run would take this session now; 0: not known */
} ft_msg_verdict;

typedef struct ft_msg_info {
    uint32_t protocol;
    char version[32];
    char model[128];
    uint64_t vocab_fingerprint;
    ft_msg_limits limits;
    uint32_t sessions, kv_blocks, kv_blocks_free;
} ft_msg_info;

typedef enum ft_client_kind {
    FT_CLIENT_OPEN,
    FT_CLIENT_DRAFT,
    FT_CLIENT_CANCEL,
    FT_CLIENT_CLOSE
} ft_client_kind;

typedef struct ft_client_msg {
    ft_client_kind kind;
    union {
        ft_msg_open open;
        ft_msg_draft draft;
    };
} ft_client_msg;

typedef enum ft_server_kind { FT_SERVER_OPENED, FT_SERVER_VERDICT } ft_server_kind;

typedef struct ft_server_msg {
    ft_server_kind kind;
    union {
        ft_msg_opened opened;
        ft_msg_verdict verdict;
    };
} ft_server_msg;

/* What the decoder of client messages enforces besides the format. */
typedef struct ft_wire_limits {
    uint32_t n_vocab;     /* ids must be below */
    uint32_t max_context; /* prompt tokens at most */
    uint32_t max_tree;
} ft_wire_limits;

/* The largest ClientMessage that a decoder takes under these limits. */
size_t ft_client_msg_max_bytes(const ft_wire_limits *limits);

/* Decoders allocate one message; free it with ft_*_msg_free (NULL is legal). FT_INVALID or
 * FT_TOO_LARGE say which field is wrong. Encoders write malloc'ed bytes, the caller frees them. */
FT_WARN_UNUSED ft_status ft_client_msg_decode(const uint8_t *data, size_t n,
                                              const ft_wire_limits *limits, ft_error *err,
                                              ft_client_msg **out);
FT_WARN_UNUSED ft_status ft_client_msg_encode(const ft_client_msg *msg, ft_error *err,
                                              uint8_t **data, size_t *n);
void ft_client_msg_free(ft_client_msg *msg);
FT_WARN_UNUSED ft_status ft_server_msg_decode(const uint8_t *data, size_t n, ft_error *err,
                                              ft_server_msg **out);
FT_WARN_UNUSED ft_status ft_server_msg_encode(const ft_server_msg *msg, ft_error *err,
                                              uint8_t **data, size_t *n);
void ft_server_msg_free(ft_server_msg *msg);
FT_WARN_UNUSED ft_status ft_info_decode(const uint8_t *data, size_t n, ft_error *err,
                                        ft_msg_info *out);
FT_WARN_UNUSED ft_status ft_info_encode(const ft_msg_info *info, ft_error *err, uint8_t **data,
                                        size_t *n);

#endif
