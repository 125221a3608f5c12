/* SPDX-License-Identifier: Apache-2.0
 *
 * A verifier made of a few lines for tests of the edge. Its text is a pure function of position and
 * last token. It has one session, and fails on demand. Also drafts for it, which guess two tokens
 * of three. Used by one thread. */
#ifndef FT_TEST_FAKE_VERIFIER_H
#define FT_TEST_FAKE_VERIFIER_H

#include "edge/edge.h"

#define FAKE_FIRST_BYTE 3 /* token of byte 0 in the tiny vocabulary */
#define FAKE_EOS        2

typedef enum fake_fault {
    FAKE_NONE,
    FAKE_CUT,          /* the stream ends instead of an answer */
    FAKE_CUT_ANSWERED, /* the round was answered, the answer is lost */
    FAKE_RESTART,      /* the session is forgotten */
    FAKE_OTHER,        /* the same, and it comes back with the target `other` */
    FAKE_GONE,     /* forgotten, too, and every open is refused from then on, as refuse_code says */
    FAKE_FAIL,     /* the server fails at this session */
    FAKE_FULL,     /* the server has no room for this session now, which it keeps */
    FAKE_STRANGE,  /* the server says that its text is another one */
    FAKE_TAKEN,    /* another stream resumed the session */
    FAKE_CANCEL,   /* the link is cancelled from outside */
    FAKE_STALE,    /* an older round's verdict comes first */
    FAKE_AHEAD,    /* a verdict for a round to come */
    FAKE_LONG,     /* a verdict with a wrong length */
    FAKE_FOREIGN,  /* next is no token */
    FAKE_EARLY,    /* a run that says it is over before it is */
    FAKE_ENDLESS,  /* a run that says it goes on when it is over */
    FAKE_SURPLUS,  /* more tokens than were asked for */
    FAKE_OFF_PATH, /* accepts a node that was not drafted */
    FAKE_SILENT    /* never answers */
} fake_fault;

typedef struct fake {
    const char *name; /* in logs; NULL: none */
    uint64_t fingerprint;
    uint32_t max_tree; /* 0: 8 */
    uint64_t target;   /* told and compared; 0: it knows nothing of targets */
    uint64_t other;
    uint32_t end_at; /* length of the text at which EOS comes; 0: never */
    /* faults: at the n-th verdict that is made (from 1), over all streams */
    uint32_t fault_at;
    fake_fault fault;
    bool again; /* from then on at every verdict */
    uint32_t verdicts;
    uint32_t runs_ahead;   /* runs that were asked for before the one before was read to its end */
    uint32_t refuse_opens; /* that many opens are refused, resumes too ... */
    uint32_t refuse_resumes; /* ... or that many resumes alone ... */
    uint32_t refuse_nth;     /* this one of the opens, from 1; 0: none */
    ft_status refuse_code;   /* ... with this */
    bool absent;             /* gives no Info */
    uint32_t retry_after_ms;
    bool tells_health;
    ft_status health;                  /* then this */
    uint32_t mute_opens, mute_resumes; /* that many are never answered */
    /* the one session */
    bool alive;
    uint32_t length, last_round, max_tokens, generated;
    bool ended, whole; /* the text; the recorded verdict is all of its round */
    int32_t last;
    ft_msg_verdict recorded;
    uint32_t opens, resumes, closes, cancels;
    ft_session_id nonce; /* of the last open */
    uint32_t nonces;     /* opens with another nonce than the one before */
    uint64_t prefix;     /* of the last link; 0: it had none */
    char open_model[128];
} fake;

/* Links to it; borrowed. With refuse_code FT_IO it gives no Info. */
ft_link_source fake_source(fake *f);
/* The token at a position, behind `last`. */
int32_t fake_token(uint32_t length, int32_t last);
/* The drafts. */
ft_draft_source_factory fake_drafts(void);

/* A text of an edge whose verifiers are fakes, behind a prompt of two tokens. */
ft_status fake_generate(ft_edge *edge, const ft_gen_sink *sink, uint32_t max_tokens, ft_error *err,
                        ft_gen_stats *stats);
/* The test fails if text[n] is not the first n_tokens of it. */
void fake_check_text(const char *text, size_t n, uint32_t n_tokens);

#endif
