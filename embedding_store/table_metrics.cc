#include "embedding_store/table_metrics.h"

#include "base/metrics.h"

namespace starling {

void ExportTableMetrics(const std::string& table, const TableStats& stats) {
  auto set = [&table](const char* name, const char* help, const char* label, const char* value,
                      int64_t figure) {
    GetGauge(name, help, {{"table", table}, {label, value}}).Set(static_cast<double>(figure));
  };
  auto rows = [&](const char* tier, int64_t n) {
    set("starling_table_rows", "Rows of a table, by the tier they are in.", "tier", tier, n);
  };
  rows("memory", stats.rows_memory);
  rows("cold", stats.rows_cold);
  auto bytes = [&](const char* where, int64_t n) {
    set("starling_table_bytes", "Bytes of a table; memory includes index and caches.", "tier",
        where, n);
  };
  bytes("memory", stats.bytes_memory);
  bytes("cold", stats.bytes_disk);
  auto ids = [&](const char* found, int64_t n) {
    set("starling_table_ids", "Ids of all calls, by where their row was.", "found", found, n);
  };
  ids("memory", stats.hits_memory);
  ids("cold", stats.hits_cold);
  ids("nowhere", stats.misses);
  auto events = [&](const char* event, int64_t n) {
    set("starling_table_events", "What happened to rows and ids.", "event", event, n);
  };
  events("created", stats.created);
  events("refused", stats.refused);
  events("expired", stats.expired);
  events("evicted", stats.evicted);
  events("erased", stats.erased);
  events("demoted", stats.demoted);
  events("promoted", stats.promoted);
  auto cold = [&](const char* kind, int64_t n) {
    set("starling_table_cold_bytes",
        "Rows asked of and given to the cold tier, and what it read and wrote for that.", "kind",
        kind, n);
  };
  cold("wanted", stats.cold_bytes_wanted);
  cold("read", stats.cold_bytes_read);
  cold("given", stats.cold_bytes_given);
  cold("written", stats.cold_bytes_written);
  GetGauge("starling_table_snapshot_aside_bytes", "Rows copied aside by writers for snapshots.",
           {{"table", table}})
      .Set(static_cast<double>(stats.snapshot_aside_bytes));
}

}  // namespace starling
