// Flags that several verbs take. A flag of one verb is defined in its own file.
#pragma once

#include <gflags/gflags.h>

DECLARE_string(config);
DECLARE_bool(json);
DECLARE_string(out);
DECLARE_string(data);
DECLARE_string(where);
DECLARE_string(checkpoint);
DECLARE_string(bundle);
DECLARE_string(port_file);
DECLARE_int32(threads);
