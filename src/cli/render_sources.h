/*
 * Where the templates of `lease render` get their items: services and keys of a server, watched
 * from the first time that a template asks for them.
 */
#ifndef LEASED_CLI_RENDER_SOURCES_H
#define LEASED_CLI_RENDER_SOURCES_H

#include "cli/render_template.h"

#include <lease.h>

struct render_sources;

struct render_sources *render_sources_create(struct lease_connection *connection);
void render_sources_destroy(struct render_sources *sources);

struct render_source render_sources_source(struct render_sources *sources);

/* Something has changed since render_sources_take_news(). */
const bool *render_sources_has_news(const struct render_sources *sources);
void render_sources_take_news(struct render_sources *sources);
/* Asks for what cannot be watched: the list of services. Waits for the answer. */
void render_sources_refresh(struct render_sources *sources);
/* NULL, or why something cannot be known: the caller may not read it, there are too many. */
const char *render_sources_error(const struct render_sources *sources);

#endif
