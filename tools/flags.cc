#include "tools/flags.h"

DEFINE_string(config, "", "the job's YAML file");
DEFINE_bool(json, false, "print results as JSON on stdout");
DEFINE_string(out, "", "where to write");
DEFINE_string(data, "",
              "files, directories or patterns of Parquet, Arrow or CSV, separated by commas");
DEFINE_string(where, "", "only rows for which this is true: country = 'US' and ds >= 20260801");
DEFINE_string(checkpoint, "", "a checkpoint, or a directory of them");
DEFINE_string(bundle, "", "a bundle, or a publication root");
DEFINE_string(port_file, "", "write the port that was bound to this file");
DEFINE_int32(threads, 0, "threads that read or score rows; 0: one per core");
