/*
 * Aligned columns on a stream. Cells are copied; widths are known only at the end, so the table is
 * printed as a whole.
 */
#ifndef LEASED_CLI_TABLE_H
#define LEASED_CLI_TABLE_H

#include "base/buffer.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#define TABLE_COLUMNS_MAX 16

struct table_column {
    const char *title;
    bool right; /* numbers read best aligned to the right */
};

struct table {
    const struct table_column *columns;
    size_t n_columns;
    size_t n_cells;
    size_t widths[TABLE_COLUMNS_MAX];
    struct buffer text; /* cells one after another, each with its end */
};

/* `columns` is borrowed for the table's life. */
void table_init(struct table *table, const struct table_column *columns, size_t n_columns);
void table_clear(struct table *table);

/* Adds the next cell of the current row; rows follow each other by themselves. */
void table_add(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

void table_print(const struct table *table, FILE *out);

#endif
