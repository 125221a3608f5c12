/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes a byte of a file in place. The same call again makes the file what it was. */
#ifndef FT_TEST_CHANGE_BYTE_H
#define FT_TEST_CHANGE_BYTE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

/* The byte that is so many bytes before the end, above 0. */
static inline void change_byte(const char *path, long before_end)
{
    FILE *file = fopen(path, "r+b");
    assert_non_null(file);
    assert_int_equal(fseek(file, -before_end, SEEK_END), 0);
    const int byte = getc(file);
    assert_int_equal(fseek(file, -before_end, SEEK_END), 0);
    assert_true(putc(byte ^ 1, file) != EOF);
    assert_int_equal(fclose(file), 0);
}

#endif
