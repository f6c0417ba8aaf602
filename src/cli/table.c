#include "cli/table.h"

#include <assert.h>
#include <stdarg.h>
#include <string.h>

#define CELL_SIZE_MAX 512

void table_init(struct table *table, const struct table_column *columns, size_t n_columns) {
    assert(n_columns > 0);
    assert(n_columns <= TABLE_COLUMNS_MAX);
    *table = (struct table){.columns = columns, .n_columns = n_columns};
    buffer_init(&table->text);
    for (size_t i = 0; i < n_columns; i++) {
        table->widths[i] = strlen(columns[i].title);
    }
}

void table_clear(struct table *table) {
    buffer_clear(&table->text);
}

void table_add(struct table *table, const char *format, ...) {
    char cell[CELL_SIZE_MAX];
    va_list list;
    va_start(list, format);
    vsnprintf(cell, sizeof cell, format, list);
    va_end(list);
    size_t size = strlen(cell);
    size_t column = table->n_cells % table->n_columns;
    if (size > table->widths[column]) {
        table->widths[column] = size;
    }
    buffer_append(&table->text, cell, size + 1);
    table->n_cells++;
}

static void print_cell(const struct table *table, size_t column, const char *text, FILE *out) {
    int width = (int)table->widths[column];
    bool is_last = column + 1 == table->n_columns;
    if (table->columns[column].right) {
        fprintf(out, "%*s", width, text);
    } else if (is_last) {
        fputs(text, out); /* nothing follows that would need the blanks */
    } else {
        fprintf(out, "%-*s", width, text);
    }
    fputs(is_last ? "\n" : "  ", out);
}

void table_print(const struct table *table, FILE *out) {
    for (size_t i = 0; i < table->n_columns; i++) {
        print_cell(table, i, table->columns[i].title, out);
    }
    const char *text = (const char *)table->text.data;
    assert(table->n_cells % table->n_columns == 0);
    for (size_t i = 0; i < table->n_cells; i++) {
        print_cell(table, i % table->n_columns, text, out);
        text += strlen(text) + 1;
    }
}
