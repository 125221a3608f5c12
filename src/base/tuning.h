/* SPDX-License-Identifier: Apache-2.0
 *
 * How a room lists its tuning constants. A tuning constant serves speed alone: what text comes out,
 * what input is refused and how much memory is used never depend on it. A room keeps its constants
 * in one list (an X-macro), from which come the fields of a struct, their values and a table:
 *
 *   #define FT_ROOM_TUNING_GROUPS(G) G(group, FT_ROOM_TUNING_GROUP) ...
 *   #define FT_ROOM_TUNING_GROUP(T, g) T(g, TYPE, WAY, name, value, "what it is") ...
 *
 * The room's tuning.h declares the struct ft_ROOM_tuning, the table ft_ROOM_tuning_table and the
 * pointer ft_ROOM_tune; FT_TUNING_DEFINE in its tuning.c defines all three.
 *
 * The room reads its constants through that pointer. `foretoken bench ablate` points
 * it to a changed copy to measure what a constant is worth. Nothing else writes that pointer, and
 * it is written only while no other thread runs. There is one pointer for the whole program, not
 * one a session, so that no function takes the constants as an argument and no state carries them.
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
#define FT_TUNING_ITEM(g, type, way, name, value, text)                                            \
    {#g "." #name, offsetof(__typeof__(tuning_values), g.name), FT_TUNING_##type, FT_TUNING_##way, \
     text},
#define FT_TUNING_ITEMS(g, LIST) LIST(FT_TUNING_ITEM, g)

/* The values, the table of them, and the pointer to the values in use. */
#define FT_TUNING_DEFINE(room_, GROUPS)                                               \
    static const ft_##room_##_tuning tuning_values = {GROUPS(FT_TUNING_VALUES)};      \
    static const ft_tuning_item tuning_items[] = {GROUPS(FT_TUNING_ITEMS)};           \
    const ft_tuning_table ft_##room_##_tuning_table = {.room = #room_,                \
                                                       .values = &tuning_values,      \
                                                       .bytes = sizeof tuning_values, \
                                                       .items = tuning_items,         \
                                                       .n = sizeof tuning_items /     \
                                                            sizeof tuning_items[0]};  \
    const ft_##room_##_tuning *ft_##room_##_tune = &tuning_values;

#endif
