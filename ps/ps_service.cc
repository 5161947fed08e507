#include "ps/ps_service.h"

#include <atomic>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status.h"
#include "base/sync_point.h"
#include "base/wrong.h"
#include "google/protobuf/util/message_differencer.h"
#include "ps/file_entries.h"
#include "ps/ps.pb.h"

namespace starling {
namespace {

constexpr int64_t kPullBytesMax = 1 << 30;

template <typename Request>
absl::StatusOr<Request> Parse(const RpcMessage& message) {
  Request request;
  if (request.ParseFromString(message.body)) return request;
  return absl::InvalidArgumentError(
      absl::StrCat("the request is no ", request.GetDescriptor()->name()));
}

absl::Status SameConfig(const StoreConfig& held, const StoreConfig& other) {
  google::protobuf::util::MessageDifferencer differencer;
  std::string differences;
  differencer.ReportDifferencesToString(&differences);
  if (differencer.Compare(held, other)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("this server serves another job or model; what differs: ", differences));
}

}  // namespace

void PsService::Gate::Enter() {
  std::unique_lock lock(mu_);
  changed_.wait(lock, [this] { return !closed_; });
  ++inside_;
}
void PsService::Gate::Leave() {
  std::lock_guard lock(mu_);
  --inside_;
  changed_.notify_all();
}
void PsService::Gate::Close() {
  std::unique_lock lock(mu_);
  changed_.wait(lock, [this] { return !closed_; });
  closed_ = true;
  changed_.wait(lock, [this] { return inside_ == 0; });
}
void PsService::Gate::Open() {
  std::lock_guard lock(mu_);
  closed_ = false;
  changed_.notify_all();
}

void PsService::Handle(absl::string_view service, absl::string_view method,
                       const RpcMessage& request, const RpcDone& reply) {
  if (service != "starling.Ps") {
    return reply(absl::UnimplementedError(absl::StrCat("there is no service ", service)));
  }
  if (method == "Pull") return reply(Pull(request));
  if (method == "Push") return reply(Push(request));
  if (method == "Prefetch") return reply(Prefetch(request));
  if (method == "Configure") return reply(Configure(request));
  if (method == "Cut") return reply(Cut(request));
  if (method == "CutStatus") return reply(CutStatus(request));
  if (method == "Forget") return reply(Forget(request));
  if (method == "Load") return reply(Load(request));
  if (method == "Stats") return reply(Stats());
  if (method == "Stop") {
    reply(RpcMessage());
    return on_stop_();
  }
  reply(absl::UnimplementedError(absl::StrCat("starling.Ps has no method ", method)));
}

absl::StatusOr<PsService::StorePtr> PsService::Store(bool with_dense) {
  std::lock_guard lock(mu_);
  if (store_ == nullptr) {
    return absl::FailedPreconditionError("this server has not been configured yet");
  }
  if (with_dense && !dense_set_) {
    return absl::FailedPreconditionError("this server has not been given dense parameters yet");
  }
  return store_;
}

// Each store gets a scratch directory of its own, since under Load two exist.
absl::StatusOr<PsService::StorePtr> PsService::NewStore(const StoreConfig& config) {
  std::string scratch = JoinPath(options_.scratch_dir, absl::StrCat("store-", stores_++));
  ASSIGN_OR_RETURN(std::unique_ptr<ParameterStore> store,
                   ParameterStore::Create(config, options_.shard, options_.shards, scratch));
  return StorePtr(std::move(store));
}

absl::Status PsService::CheckShard(int shard, int shards) const {
  if (shard == options_.shard && shards == options_.shards) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("this server is shard ", options_.shard, " of ",
                                                    options_.shards, ", the caller takes it for ",
                                                    shard, " of ", shards));
}

absl::Status PsService::CheckTables(const ParameterStore& store, int tables) const {
  if (tables == store.tables()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the call names ", tables, " tables, the store has ", store.tables()));
}

// Ids that are no run of this shard's, in order, would be trained where no
// pull finds them, or twice.
absl::Status PsService::TakeIds(int64_t n, AttachmentReader& reader, TableKeys* keys) const {
  RETURN_IF_ERROR(reader.Take(n, &keys->ids));
  for (size_t i = 0; i < keys->ids.size(); ++i) {
    uint64_t id = keys->ids[i];
    if (map_.ServerOf(id) != options_.shard) {
      return absl::InvalidArgumentError(
          absl::StrCat("id ", id, " belongs to shard ", map_.ServerOf(id)));
    }
    if (i > 0 && !IdBefore(keys->ids[i - 1], id)) {
      return absl::InvalidArgumentError(
          absl::StrCat("id ", id, " is there twice or out of (bucket, id) order"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<RpcMessage> PsService::Configure(const RpcMessage& message) {
  ASSIGN_OR_RETURN(ConfigureRequest request, Parse<ConfigureRequest>(message));
  RETURN_IF_ERROR(CheckShard(request.shard(), request.shards()));
  AttachmentReader reader(message.attachment);
  std::span<const float> dense;
  RETURN_IF_ERROR(reader.Take(static_cast<int64_t>(reader.left() / sizeof(float)), &dense));
  RETURN_IF_ERROR(reader.Finish());
  std::lock_guard lock(configure_mu_);
  absl::StatusOr<StorePtr> store = Store();
  if (store.ok()) {
    RETURN_IF_ERROR(SameConfig((*store)->config(), request.config()));
  } else {
    ASSIGN_OR_RETURN(store, NewStore(request.config()));
  }
  STARLING_SYNC_POINT("ps:configure");
  bool set_dense = !dense.empty() && !dense_set_;  // Written under both locks.
  if (set_dense) RETURN_IF_ERROR((*store)->SetDense(dense));
  std::lock_guard state(mu_);
  store_ = *store;
  dense_set_ = dense_set_ || set_dense;
  return RpcMessage();
}

absl::StatusOr<RpcMessage> PsService::Pull(const RpcMessage& message) {
  ASSIGN_OR_RETURN(PullRequest request, Parse<PullRequest>(message));
  ASSIGN_OR_RETURN(StorePtr store, Store(request.dense()));
  RETURN_IF_ERROR(CheckTables(*store, request.tables_size()));
  AttachmentReader reader(message.attachment);
  std::vector<TableKeys> keys(request.tables_size());
  int64_t floats = 0;
  for (int t = 0; t < request.tables_size(); ++t) {
    RETURN_IF_ERROR(TakeIds(request.tables(t).ids(), reader, &keys[t]));
    floats += request.tables(t).ids() * store->table(t).width();
  }
  for (int t = 0; t < request.tables_size(); ++t) {
    if (!request.tables(t).has_event_times()) continue;
    RETURN_IF_ERROR(reader.Take(request.tables(t).ids(), &keys[t].event_times));
  }
  for (int t = 0; t < request.tables_size(); ++t) {
    if (!request.tables(t).has_counts()) continue;
    RETURN_IF_ERROR(reader.Take(request.tables(t).ids(), &keys[t].counts));
  }
  RETURN_IF_ERROR(reader.Finish());
  if (request.dense()) {
    for (const DenseParam& param : store->config().dense()) floats += param.size();
  }
  if (floats > kPullBytesMax / static_cast<int64_t>(sizeof(float))) {
    return absl::InvalidArgumentError(
        absl::StrCat("a pull of ", floats, " floats is too large; make batches smaller"));
  }
  RpcMessage reply;
  reply.attachment.resize(floats * sizeof(float));
  std::span<float> rest(reinterpret_cast<float*>(reply.attachment.data()), floats);
  std::vector<std::span<float>> weights;
  for (int t = 0; t < request.tables_size(); ++t) {
    weights.push_back(rest.first(keys[t].ids.size() * store->table(t).width()));
    rest = rest.subspan(weights.back().size());
  }
  PullMode mode =
      request.mode() == PullRequest::READ_ONLY ? PullMode::kReadOnly : PullMode::kCreate;
  RETURN_IF_ERROR(store->PullRows(mode, keys, weights));
  if (request.dense()) RETURN_IF_ERROR(store->PullDense(rest));
  return reply;
}

absl::StatusOr<RpcMessage> PsService::Push(const RpcMessage& message) {
  ASSIGN_OR_RETURN(PushRequest request, Parse<PushRequest>(message));
  AttachmentReader reader(message.attachment);
  std::vector<TableKeys> keys(request.ids_size());
  std::vector<std::span<const float>> grads(request.ids_size());
  for (int t = 0; t < request.ids_size(); ++t) {
    RETURN_IF_ERROR(TakeIds(request.ids(t), reader, &keys[t]));
  }
  BatchName name{request.job(), request.pass(), request.split(), request.batch()};
  bool applied = false;
  pushes_.Enter();
  absl::Status status = [&]() -> absl::Status {
    ASSIGN_OR_RETURN(StorePtr store, Store());
    RETURN_IF_ERROR(CheckTables(*store, request.ids_size()));
    for (int t = 0; t < request.ids_size(); ++t) {
      RETURN_IF_ERROR(reader.Take(request.ids(t) * store->table(t).width(), &grads[t]));
    }
    std::span<const float> dense;
    RETURN_IF_ERROR(reader.Take(static_cast<int64_t>(reader.left() / sizeof(float)), &dense));
    RETURN_IF_ERROR(reader.Finish());
    if (!dense.empty()) RETURN_IF_ERROR(Store(/*with_dense=*/true).status());
    return store->Push(name, request.lr_scale(), keys, grads, dense, &applied);
  }();
  pushes_.Leave();
  RETURN_IF_ERROR(status);
  STARLING_SYNC_POINT("ps:push_applied");
  // A network that loses every other reply: what dedup is for.
  static std::atomic<unsigned> replies{0};
  if (STARLING_WRONG("push_reply_lost") && replies++ % 2 == 0)
    return absl::UnavailableError("reply lost");
  PushReply reply;
  reply.set_applied(applied);
  return RpcMessage{reply.SerializeAsString(), ""};
}

absl::StatusOr<RpcMessage> PsService::Prefetch(const RpcMessage& message) {
  ASSIGN_OR_RETURN(PrefetchRequest request, Parse<PrefetchRequest>(message));
  ASSIGN_OR_RETURN(StorePtr store, Store());
  RETURN_IF_ERROR(CheckTables(*store, request.ids_size()));
  AttachmentReader reader(message.attachment);
  std::vector<TableKeys> keys(request.ids_size());
  for (int t = 0; t < request.ids_size(); ++t) {
    RETURN_IF_ERROR(TakeIds(request.ids(t), reader, &keys[t]));
  }
  RETURN_IF_ERROR(reader.Finish());
  store->Prefetch(keys);
  return RpcMessage();
}

absl::StatusOr<RpcMessage> PsService::Cut(const RpcMessage& message) {
  ASSIGN_OR_RETURN(CutRequest request, Parse<CutRequest>(message));
  ASSIGN_OR_RETURN(StorePtr store, Store());
  if (request.since_size() != 0 && request.since_size() != store->tables()) {
    return absl::InvalidArgumentError(absl::StrCat("the call names ", request.since_size(),
                                                   " epochs, the store has ", store->tables(),
                                                   " tables"));
  }
  std::lock_guard lock(cut_mu_);
  cut_ = nullptr;
  CutOptions options{{request.since().begin(), request.since().end()},
                     request.bytes_per_second_max()};
  pushes_.Close();
  absl::StatusOr<std::unique_ptr<StoreCut>> cut = store->StartCut(request.dir(), options);
  pushes_.Open();
  RETURN_IF_ERROR(cut.status());
  CutReply reply;
  for (uint32_t epoch : (*cut)->epochs()) reply.add_epochs(epoch);
  cut_ = std::make_unique<CutTask>(std::move(store), *std::move(cut));
  return RpcMessage{reply.SerializeAsString(), ""};
}

absl::StatusOr<RpcMessage> PsService::CutStatus(const RpcMessage& message) {
  ASSIGN_OR_RETURN(CutStatusRequest request, Parse<CutStatusRequest>(message));
  std::lock_guard lock(cut_mu_);
  if (cut_ == nullptr) return absl::FailedPreconditionError("this server has not begun a cut");
  if (request.hurry()) cut_->Hurry();
  CutStatusReply reply;
  reply.set_done(cut_->done());
  if (cut_->done()) {
    RETURN_IF_ERROR(cut_->files().status());
    ToProto(*cut_->files(), reply.mutable_files());
  }
  return RpcMessage{reply.SerializeAsString(), ""};
}

absl::StatusOr<RpcMessage> PsService::Forget(const RpcMessage& message) {
  ASSIGN_OR_RETURN(ForgetRequest request, Parse<ForgetRequest>(message));
  ASSIGN_OR_RETURN(StorePtr store, Store());
  RETURN_IF_ERROR(CheckTables(*store, request.epochs_size()));
  store->ForgetBefore({request.epochs().begin(), request.epochs().end()});
  return RpcMessage();
}

absl::StatusOr<RpcMessage> PsService::Load(const RpcMessage& message) {
  ASSIGN_OR_RETURN(LoadRequest request, Parse<LoadRequest>(message));
  RETURN_IF_ERROR(CheckShard(request.shard(), request.shards()));
  std::lock_guard lock(configure_mu_);
  ASSIGN_OR_RETURN(StorePtr store, NewStore(request.config()));
  std::vector<StoredCut> chain;
  for (const StoredCutProto& cut : request.chain())
    chain.push_back({cut.dir(), FromProto(cut.files())});
  RETURN_IF_ERROR(store->Load(chain));
  pushes_.Close();
  {
    std::lock_guard state(mu_);
    store_.swap(store);
    dense_set_ = true;
  }
  pushes_.Open();
  return RpcMessage();
}

absl::StatusOr<RpcMessage> PsService::Stats() {
  StatsReply reply;
  if (absl::StatusOr<StorePtr> store = Store(); store.ok()) {
    reply.set_batches_applied((*store)->batches_applied());
    reply.set_batches_repeated((*store)->batches_repeated());
    for (int t = 0; t < (*store)->tables(); ++t) {
      reply.set_rows(reply.rows() + (*store)->table(t).rows());
    }
  }
  return RpcMessage{reply.SerializeAsString(), ""};
}

}  // namespace starling
