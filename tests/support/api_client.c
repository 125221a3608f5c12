// SPDX-License-Identifier: Apache-2.0
// One HTTP request for each call, on a connection of its own. Stateless.
#include "support/api_client.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <jansson.h>

#include "support/http_client.h"

char *api_complete(int port, double temperature)
{
    char body[200];
    http_response r;
    snprintf(body, sizeof body,
             "{\"prompt\":\"once upon a time\",\"max_tokens\":24,\"seed\":9,\"temperature\":%.1f}",
             temperature);
    assert_int_equal(http_ask(port, "POST", "/v1/completions", "", body, &r), 200);
    json_t *json = json_loads(r.body.data, 0, NULL);
    const json_t *choice = json_array_get(json_object_get(json, "choices"), 0);
    const char *text = json_string_value(json_object_get(choice, "text"));
    assert_non_null(text);
    char *copy = strdup(text);
    json_decref(json);
    http_response_deinit(&r);
    return copy;
}

long api_metric(int port, const char *name)
{
    http_response r;
    char line[100];
    assert_int_equal(http_ask(port, "GET", "/metrics", "", NULL, &r), 200);
    snprintf(line, sizeof line, "\nforetoken_%s ", name);
    const char *at = strstr(r.body.data, line);
    assert_non_null(at);
    long value = atol(at + strlen(line));
    http_response_deinit(&r);
    return value;
}
