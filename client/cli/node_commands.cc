// accelctl node, env and version.

#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "client/cli/commands.h"
#include "client/cli/human.h"
#include "client/cli/output.h"
#include "client/cli/table.h"
#include "core/base/status_macros.h"
#include "google/protobuf/stubs/common.h"
#include "grpcpp/grpcpp.h"
#include "nlohmann/json.hpp"

namespace accel::cli {
namespace {

void PrintNode(const Context& context, const v1::Node& node) {
  Table table;
  table.Add({"host", node.host_name()});
  table.Add({"version", node.version()});
  table.Add({"pid", absl::StrCat(node.pid())});
  table.Add({"up since", HumanTime(node.start_time(), context.io.zone)});
  table.Add({"state folder", node.state_dir()});
  table.Add({"API", absl::StrJoin(node.listen_addresses(), " ")});
  table.Add({"metrics", node.metrics_address()});
  table.Add({"cpu cores", absl::StrCat(node.cpu_cores())});
  table.Add({"memory", HumanBytes(node.memory_bytes())});
  table.Add({"cuda devices", absl::StrCat(node.cuda_devices())});
  table.Add({"ranks", absl::StrCat(node.ranks_in_use(), " of ", node.max_ranks(), " in use, ",
                                   node.max_world_size(), " a job")});
  table.Add({"queued jobs", absl::StrCat(node.queued_jobs())});
  for (const v1::Node::DataRoot& root : node.data_roots()) {
    table.Add({"data root " + root.name(), root.path()});
  }
  table.Add({"rendezvous",
             node.rendezvous_networks_size() == 0
                 ? "loopback"
                 : absl::StrCat("loopback ", absl::StrJoin(node.rendezvous_networks(), " "))});
  table.Print(context.io.out, context.color_out());
}

absl::StatusOr<ExitCode> Node(Context& context) {
  ACCEL_ASSIGN_OR_RETURN(const auto client, context.Connect());
  ACCEL_ASSIGN_OR_RETURN(const v1::Node node, client->GetNode());
  if (context.Format() == OutputFormat::kTable) {
    PrintNode(context, node);
  } else {
    PrintMessage(context.io.out, context.Format(), node);
  }
  return ExitCode::kOk;
}

// The value behind `key` in a file of `key<separator>value` lines; empty when there is none.
std::string ValueIn(const char* file, absl::string_view key, char separator) {
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    const size_t position = line.find(separator);
    if (position == std::string::npos) continue;
    const absl::string_view name =
        absl::StripAsciiWhitespace(absl::string_view(line).substr(0, position));
    if (name != key) continue;
    absl::string_view value =
        absl::StripAsciiWhitespace(absl::string_view(line).substr(position + 1));
    if (absl::ConsumePrefix(&value, "\"")) absl::ConsumeSuffix(&value, "\"");
    return std::string(value);
  }
  return "";
}

using Facts = std::vector<std::pair<std::string, std::string>>;

Facts LocalFacts() {
  utsname kernel{};
  uname(&kernel);
  const int64_t memory = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return {{"accelctl", ACCEL_VERSION},
          {"grpc", grpc::Version()},
          {"protobuf", google::protobuf::internal::VersionString(GOOGLE_PROTOBUF_VERSION)},
          {"os", ValueIn("/etc/os-release", "PRETTY_NAME", '=')},
          {"kernel", absl::StrCat(kernel.sysname, " ", kernel.release, " ", kernel.machine)},
          {"cpu", ValueIn("/proc/cpuinfo", "model name", ':')},
          {"cpu_cores", absl::StrCat(std::thread::hardware_concurrency())},
          {"memory", HumanBytes(memory)}};
}

void AddNodeFacts(Context& context, Facts* facts) {
  const absl::StatusOr<std::unique_ptr<client::Client>> client = context.Connect();
  const absl::StatusOr<v1::Node> node = client.ok() ? (*client)->GetNode() : client.status();
  facts->emplace_back("address", context.used_address);
  if (!node.ok()) {
    facts->emplace_back("acceld", absl::StrCat("not reachable: ", node.status().message()));
    return;
  }
  facts->emplace_back("acceld", node->version());
  facts->emplace_back("cuda_devices", absl::StrCat(node->cuda_devices()));
  facts->emplace_back("state_dir", node->state_dir());
}

absl::StatusOr<ExitCode> Env(Context& context) {
  Facts facts = LocalFacts();
  AddNodeFacts(context, &facts);
  if (context.Format() == OutputFormat::kJson) {
    nlohmann::ordered_json json;
    for (const auto& [name, value] : facts) json[name] = value;
    context.io.out << json.dump(2) << '\n';
    return ExitCode::kOk;
  }
  if (context.Format() == OutputFormat::kYaml) {
    // A quoted JSON string is a YAML string too.
    for (const auto& [name, value] : facts) {
      context.io.out << name << ": " << nlohmann::json(value).dump() << '\n';
    }
    return ExitCode::kOk;
  }
  Table table;
  for (const auto& [name, value] : facts) table.Add({name, value});
  table.Print(context.io.out, context.color_out());
  return ExitCode::kOk;
}

}  // namespace

void AddNodeCommands(CLI::App* app, Context& context) {
  SetCommand(app->add_subcommand("node", "Show the node and what it has free"), context,
             [&context] { return Node(context); });
  SetCommand(app->add_subcommand("env", "Versions and machine, for bug reports"), context,
             [&context] { return Env(context); });
  SetCommand(app->add_subcommand("version", "Print the version"), context,
             [&context]() -> absl::StatusOr<ExitCode> {
               context.io.out << "accelctl " ACCEL_VERSION "\n";
               return ExitCode::kOk;
             });
}

}  // namespace accel::cli
