#include "core/config/yaml_guard.h"

#include <yaml-cpp/depthguard.h>
#include <yaml-cpp/eventhandler.h>

#include <sstream>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/config/field_rules.h"
#include "nlohmann/json.hpp"

namespace accel::config {
namespace {

constexpr size_t kMaxBytes = 1 << 20;
constexpr int kMaxDepth = 64;

// yaml-cpp passes on bytes that are no UTF-8, and takes some control characters for the end.
absl::Status CheckText(absl::string_view text) {
  if (text.size() > kMaxBytes) {
    return absl::InvalidArgumentError(
        NotAllowed(absl::StrCat(text.size(), " bytes"), absl::StrCat("at most ", kMaxBytes)));
  }
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (absl::ascii_iscntrl(c) && c != '\n' && c != '\r' && c != '\t') {
      return absl::InvalidArgumentError(absl::StrCat("control character ", static_cast<int>(c),
                                                     " at byte ", i, " is not allowed"));
    }
  }
  try {
    nlohmann::json(std::string(text)).dump();  // the strict encoder throws for bad UTF-8
  } catch (const nlohmann::json::exception&) {
    return absl::InvalidArgumentError("text is not UTF-8");
  }
  return absl::OkStatus();
}

// Notes where documents begin.
class DocumentMarks : public YAML::EventHandler {
 public:
  const YAML::Mark& last() const { return last_; }

  void OnDocumentStart(const YAML::Mark& mark) override { last_ = mark; }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark&, YAML::anchor_t) override {}
  void OnScalar(const YAML::Mark&, const std::string&, YAML::anchor_t,
                const std::string&) override {}
  void OnSequenceStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                       YAML::EmitterStyle::value) override {}
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark&, const std::string&, YAML::anchor_t,
                  YAML::EmitterStyle::value) override {}
  void OnMapEnd() override {}

 private:
  YAML::Mark last_;
};

// Refuses what YAML::Load would leave unread. YAML::LoadAll does not serve: where a token belongs
// to no document (`, a`), it reads empty documents without end.
absl::Status CheckSingleDocument(const std::string& text) {
  std::istringstream stream(text);
  YAML::Parser parser(stream);
  DocumentMarks marks;
  if (parser.HandleNextDocument(marks) && parser.HandleNextDocument(marks)) {
    return absl::InvalidArgumentError(
        absl::StrCat(At(marks.last()), ": text beyond the only document that is allowed"));
  }
  return absl::OkStatus();
}

// Measures a tree with each alias counted as often as it is used, before anything is built from it:
// a few lines of aliases can stand for more than memory holds, or for themselves.
class SizeCheck {
 public:
  absl::Status Visit(const YAML::Node& node, int depth) {
    if (depth > kMaxDepth) {
      return absl::InvalidArgumentError(
          absl::StrCat(At(node.Mark()), ": more than ", kMaxDepth, " levels"));
    }
    // Each value and a separator take at least this much without aliases.
    bytes_ += 1 + (node.IsScalar() ? node.Scalar().size() : 0);
    if (bytes_ > kMaxBytes + 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(At(node.Mark()), ": aliases make more than ", kMaxBytes, " bytes"));
    }
    if (node.IsSequence()) {
      for (const YAML::Node& item : node) ACCEL_RETURN_IF_ERROR(Visit(item, depth + 1));
    } else if (node.IsMap()) {
      for (const auto& entry : node) {
        ACCEL_RETURN_IF_ERROR(Visit(entry.first, depth + 1));
        ACCEL_RETURN_IF_ERROR(Visit(entry.second, depth + 1));
      }
    }
    return absl::OkStatus();
  }

 private:
  size_t bytes_ = 0;
};

}  // namespace

std::string At(const YAML::Mark& mark) {
  return absl::StrCat("line ", mark.line + 1, ", column ", mark.column + 1);
}

absl::StatusOr<YAML::Node> LoadUntrustedYaml(absl::string_view text) {
  ACCEL_RETURN_IF_ERROR(CheckText(text));
  const std::string copy(text);
  try {
    ACCEL_RETURN_IF_ERROR(CheckSingleDocument(copy));
    YAML::Node document = YAML::Load(copy);
    ACCEL_RETURN_IF_ERROR(SizeCheck().Visit(document, 1));
    return document;
  } catch (const YAML::DeepRecursion& exception) {
    return absl::InvalidArgumentError(
        absl::StrCat(At(exception.mark), ": more than ", kMaxDepth, " levels"));
  } catch (const YAML::Exception& exception) {
    return absl::InvalidArgumentError(absl::StrCat(At(exception.mark), ": ", exception.msg));
  }
}

}  // namespace accel::config
