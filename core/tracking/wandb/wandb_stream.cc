#include "core/tracking/wandb/wandb_stream.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/tracking/http/delivery_error.h"
#include "core/tracking/json_values.h"

namespace accel::tracking {
namespace {

using accel::internal::v1::wandb::RunRecord;
using nlohmann::json;

// Of one request, below what the service takes.
constexpr size_t kMaxLines = 5000;
constexpr size_t kMaxBytes = 4 << 20;

constexpr char kUpsert[] =
    "mutation UpsertBucket($name: String, $project: String, $entity: String, $groupName: String, "
    "$displayName: String, $notes: String, $config: JSONString, $host: String, $jobType: String, "
    "$tags: [String!]) { upsertBucket(input: {name: $name, modelName: $project, entityName: "
    "$entity, groupName: $groupName, displayName: $displayName, notes: $notes, config: $config, "
    "host: $host, jobType: $jobType, tags: $tags}) { bucket { id name displayName "
    "historyLineCount project { name entity { name } } } inserted } }";

std::string Text(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : "";
}

// GraphQL answers 200 to a request that it refuses.
absl::Status RefusalOf(const json& answer) {
  if (!answer.is_object() || !answer.contains("errors")) return absl::OkStatus();
  const json& errors = answer["errors"];
  std::string text = "the server refused the run";
  if (errors.is_array() && !errors.empty() && errors[0].is_object()) {
    absl::StrAppend(&text, ": ", Text(errors[0], "message"));
  }
  return Permanent(absl::FailedPreconditionError(text));
}

// The app's address of an API's.
std::string AppUrl(const std::string& base) {
  return base == "https://api.wandb.ai" ? "https://wandb.ai" : base;
}

}  // namespace

absl::StatusOr<json> WandBStream::Upsert(const json& variables) {
  ACCEL_ASSIGN_OR_RETURN(
      const json answer,
      api_.Post("/graphql",
                {{"operationName", "UpsertBucket"}, {"query", kUpsert}, {"variables", variables}}));
  ACCEL_RETURN_IF_ERROR(RefusalOf(answer));
  const json bucket = answer.value(json::json_pointer("/data/upsertBucket/bucket"), json());
  if (!bucket.is_object()) {
    return absl::UnavailableError("the server's answer to UpsertBucket holds no run");
  }
  return bucket;
}

absl::StatusOr<int64_t> WandBStream::Open(const RunRecord& run) {
  json variables = {{"name", run.run_id()},
                    {"project", run.project()},
                    {"displayName", run.display_name()},
                    {"host", run.host()}};
  const auto add = [&variables](const char* key, const std::string& value) {
    if (!value.empty()) variables[key] = value;
  };
  add("entity", run.entity());
  add("groupName", run.run_group());
  add("jobType", run.job_type());
  add("notes", run.notes());
  if (run.tags_size() > 0) {
    variables["tags"] = std::vector<std::string>(run.tags().begin(), run.tags().end());
  }
  ACCEL_ASSIGN_OR_RETURN(const json bucket, Upsert(variables));
  const std::string project = bucket.value(json::json_pointer("/project/name"), run.project());
  const std::string entity = bucket.value(json::json_pointer("/project/entity/name"), run.entity());
  const std::string path =
      absl::StrCat("/", PercentEncode(entity), "/", PercentEncode(project), "/");
  stream_path_ = absl::StrCat("/files", path, PercentEncode(run.run_id()), "/file_stream");
  location_ = absl::StrCat(AppUrl(api_.base_url()), path, "runs/", PercentEncode(run.run_id()));
  const auto count = bucket.find("historyLineCount");
  return count != bucket.end() && count->is_number_integer() ? count->get<int64_t>() : 0;
}

absl::Status WandBStream::SetConfig(const RunRecord& run, const WandBItems& config) {
  WandBItems wrapped;
  for (const auto& [path, text] : config) {
    wrapped[path] = absl::StrCat("{\"value\":", text, "}");
  }
  json variables = {
      {"name", run.run_id()}, {"project", run.project()}, {"config", ItemsJson(wrapped)}};
  if (!run.entity().empty()) variables["entity"] = run.entity();
  return Upsert(variables).status();
}

absl::Status WandBStream::SendFiles(const std::string& body) {
  return api_.Send("POST", stream_path_, body).status();
}

absl::Status WandBStream::SendLines(int64_t base, WandBLog* log) {
  while (!log->lines().empty()) {
    std::string content;
    size_t count = 0;
    for (const std::string& line : log->lines()) {
      if (count == kMaxLines || (count > 0 && content.size() + line.size() > kMaxBytes)) break;
      absl::StrAppend(&content, count == 0 ? "" : ",", JsonText(line));
      ++count;
    }
    ACCEL_RETURN_IF_ERROR(SendFiles(absl::StrCat(
        R"({"files":{"wandb-history.jsonl":{"offset":)", base + log->first_line(),
        R"(,"content":[)", content, R"(]},"wandb-summary.json":{"offset":0,"content":[)",
        JsonText(ItemsJson(log->summary())), "]}}}")));
    log->DropLines(count);
  }
  return absl::OkStatus();
}

absl::Status WandBStream::Complete(int exit_code) {
  return SendFiles(absl::StrCat(R"({"complete":true,"exitcode":)", exit_code, "}"));
}

}  // namespace accel::tracking
