// SPDX-License-Identifier: Apache-2.0
// Speculative decoding with two model files in one process, by libforetoken.
//   cc embed.c -lforetoken -o embed && ./embed TARGET.gguf DRAFT.gguf "Once upon a time" 64
// Prints the text, and on standard error how many passes of the target it took.
#include <foretoken.h>
#include <stdio.h>
#include <stdlib.h>

#define KV_TOKENS 4096 /* of both pools: the longest text here */
#define DRAFT     4    /* tokens of a draft */

static foretoken_error error;

static void must(int failed)
{
    if (failed) {
        fprintf(stderr, "embed: %s: %s\n", foretoken_code_name(error.code), error.message);
        exit(1);
    }
}

/* False: the text ends here. */
static bool print_token(const foretoken_engine *engine, int32_t token)
{
    char bytes[256];
    if (foretoken_engine_is_end(engine, token))
        return false;
    size_t n = foretoken_engine_piece(engine, token, bytes, sizeof bytes);
    fwrite(bytes, 1, n < sizeof bytes ? n : sizeof bytes, stdout);
    return true;
}

int main(int argc, char **argv)
{
    foretoken_engine *target, *small;
    foretoken_session *session;
    foretoken_drafter *drafter;
    int32_t prompt[1024], draft[DRAFT], next;
    size_t n, accepted, written = 0, rounds = 0;
    if (argc != 5) {
        fprintf(stderr, "usage: embed TARGET.gguf DRAFT.gguf PROMPT TOKENS\n");
        return 2;
    }
    const size_t most = (size_t)atoi(argv[4]);
    must(foretoken_engine_open(argv[1], KV_TOKENS, 0, &error, &target));
    must(foretoken_engine_open(argv[2], KV_TOKENS, 0, &error, &small));
    if (foretoken_engine_vocabulary(target) != foretoken_engine_vocabulary(small)) {
        fprintf(stderr, "embed: the draft has another vocabulary\n");
        return 1;
    }
    must(foretoken_session_create(target, NULL, &error, &session));
    must(foretoken_drafter_create(small, NULL, &error, &drafter));

    must(foretoken_engine_tokenize(target, argv[3], prompt, 1024, &n, &error));
    if (n > 1024)
        n = 1024;
    must(foretoken_session_append(session, prompt, n, &error));
    must(foretoken_drafter_reset(drafter, prompt, n, &error));

    for (bool more = true; more && written < most; rounds++) {
        must(foretoken_drafter_draft(drafter, DRAFT, draft, &n, &error));
        must(foretoken_session_verify(session, draft, n, &accepted, &next, &error));
        must(foretoken_drafter_advance(drafter, accepted, next, &error));
        for (size_t i = 0; more && i <= accepted && written < most; i++, written++)
            more = print_token(target, i < accepted ? draft[i] : next);
    }
    fprintf(stderr, "\n%zu tokens in %zu passes of the target\n", written, rounds);

    foretoken_drafter_destroy(drafter);
    foretoken_session_destroy(session);
    foretoken_engine_close(small);
    foretoken_engine_close(target);
    return 0;
}
