// SPDX-License-Identifier: Apache-2.0
// The HTTP server over the tests' backend, for clients that are programs of their own. Prints its
// base URL and serves until its standard input ends.
//
//   http_demo_server [API_KEY [CERT.pem KEY.pem]]
#include <stdio.h>
#include <unistd.h>

#include "http/openai.h"
#include "support/http_backend.h"

int main(int argc, char **argv)
{
    ft_error err = {0};
    ft_http *http = NULL;
    http_backend backend;
    char ignored[256];
    http_backend_init(&backend);
    ft_http_opts opts = {.backend = http_backend_of(&backend),
                         .api_key = argc > 1 ? argv[1] : NULL,
                         .tls_cert = argc > 3 ? argv[2] : NULL,
                         .tls_key = argc > 3 ? argv[3] : NULL};
    if (ft_http_create(&opts, &err, &http) != FT_OK) {
        fprintf(stderr, "http_demo_server: %s\n", err.message);
        return 1;
    }
    printf("%s://127.0.0.1:%d/v1\n", opts.tls_cert ? "https" : "http", ft_http_port(http));
    fflush(stdout);
    while (read(STDIN_FILENO, ignored, sizeof ignored) > 0)
        ;
    ft_http_destroy(http);
    http_backend_deinit(&backend);
    return 0;
}
