#include "core/caller.h"

const struct caller caller_anonymous = {.kind = CALLER_CLIENT};
const struct caller caller_server = {.kind = CALLER_SERVER};
