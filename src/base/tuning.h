/* SPDX-License-Identifier: Apache-2.0
 *
 * How a room lists its tuning constants. A tuning constant serves speed alone: what text comes out,
 * what input is refused and how much memory is used never depend on it. A room keeps its constants
 * in one list (an X-macro), from which come the fields of a struct, their values and a table:
 *
 *   #define FT_ROOM_TUNING_GROUPS(G) G(group, FT_ROOM_TUNING_GROUP) ...
 *   #define FT_ROOM_TUNING_GROUP(T, g) T(g, TYPE, WAY, name, value, "what it is") ...
 *
 * The room reads them through one pointer. `foretoken bench ablate` points it to a changed copy to
 * measure what a constant is worth. Nobody else writes that pointer, and it is written only while
 * no other thread runs. It is one pointer for the program, because constants are the program's and
 * not a session's: no function takes them as an argument, and state that is copied or zeroed need
 * not carry them.
 */
#ifndef FT_BASE_TUNING_H
#define FT_BASE_TUNING_H

#include <stddef.h>
#include <stdint.h>

typedef enum ft_tuning_type { FT_TUNING_REAL, FT_TUNING_SINGLE, FT_TUNING_COUNT } ft_tuning_type;
#define FT_TUNING_TYPE_REAL   double
#define FT_TUNING_TYPE_SINGLE float
#define FT_TUNING_TYPE_COUNT  uint32_t

/* Which two other values of a constant are tried. */
typedef enum ft_tuning_way {
    FT_TUNING_SCALED,  /* value / 2 and value * 2 */
    FT_TUNING_FROM_ONE /* half and double of the distance from 1: for shares kept, margins */
} ft_tuning_way;

typedef struct ft_tuning_item {
    const char *name; /* group.name */
    size_t offset;    /* in the room's struct */
    ft_tuning_type type;
    ft_tuning_way way;
    const char *text; /* what it is, with its unit */
} ft_tuning_item;

/* All constants of one room. */
typedef struct ft_tuning_table {
    const char *room;
    const void *values; /* the room's struct with the program's values */
    size_t bytes;       /* of the struct */
    const ft_tuning_item *items;
    size_t n;
} ft_tuning_table;

#define FT_TUNING_FIELD(g, type, way, name, value, text) FT_TUNING_TYPE_##type name;
#define FT_TUNING_STRUCT(g, LIST) \
    struct {                      \
        LIST(FT_TUNING_FIELD, g)  \
    } g;
#define FT_TUNING_VALUE(g, type, way, name, value, text) .name = (value),
#define FT_TUNING_VALUES(g, LIST)                        .g = {LIST(FT_TUNING_VALUE, g)},

#endif
