/*
 * Every request that the program serves, with the right that its caller needs: what the test of
 * rights goes through, so that no request is forgotten there.
 */
#ifndef LEASED_SERVER_REQUEST_LIST_H
#define LEASED_SERVER_REQUEST_LIST_H

#include "doors/door.h"

#include <stdio.h>

/* One line a request: the door ("server" for the server's own routes), the name, the right, with
 * tabs between them. */
void request_list_print(const struct door_list *doors, FILE *stream);

/* "none", "user", "read", "write", "read_write", "root". */
const char *request_list_right_name(enum door_right right);

#endif
