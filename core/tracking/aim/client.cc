#include "core/tracking/aim/client.h"

#include <sodium.h>

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "core/base/status_macros.h"
#include "core/tracking/aim/tree.h"

namespace accel::tracking::aim {
namespace {

using nlohmann::json;

// A random UUID.
std::string NewId() {
  std::string bytes(16, '\0');
  randombytes_buf(bytes.data(), bytes.size());
  bytes[6] = static_cast<char>((bytes[6] & 0x0F) | 0x40);
  bytes[8] = static_cast<char>((bytes[8] & 0x3F) | 0x80);
  const std::string hex = absl::BytesToHexString(bytes);
  return absl::StrCat(hex.substr(0, 8), "-", hex.substr(8, 4), "-", hex.substr(12, 4), "-",
                      hex.substr(16, 4), "-", hex.substr(20));
}

std::string Encoded(const json& value) { return absl::Base64Escape(EncodeTree(value)); }

// `exception` as the server describes it.
absl::Status ExceptionStatus(absl::string_view what, const json& exception) {
  const std::string name = StringMember(exception, "class_name");
  const std::string text =
      absl::StrCat("aim's ", what, ": ", name, " ", StringMember(exception, "message"));
  if (name == "UnauthorizedRequestError") return absl::AbortedError(text);
  if (name == "KeyError") return absl::NotFoundError(text);
  return absl::UnavailableError(text);
}

absl::Status StatusOf(absl::string_view what, const JsonAnswer& answer) {
  if (answer.response.status == 400 && answer.body.is_object() &&
      answer.body.contains("exception")) {
    return ExceptionStatus(what, answer.body["exception"]);
  }
  return answer.ToStatus(absl::StrCat("aim's ", what));
}

}  // namespace

Client::Client(std::unique_ptr<HttpClient> http, std::string base)
    : http_(std::move(http)), base_(std::move(base)), id_(NewId()) {}

absl::Status Client::Connect() {
  socket_ = nullptr;
  // Does what connect does, whether the server knows this client or not.
  ACCEL_RETURN_IF_ERROR(Get(absl::StrCat("/client/reconnect/", id_, "/")));
  ACCEL_RETURN_IF_ERROR(SendHeartbeat());
  ACCEL_ASSIGN_OR_RETURN(
      socket_, WebSocket::Connect(absl::StrCat(base_, "/tracking/", id_, "/write-instruction/"),
                                  HttpOptions()));
  return absl::OkStatus();
}

absl::Status Client::SendHeartbeat() { return Get(absl::StrCat("/client/heartbeat/", id_, "/")); }

absl::Status Client::Disconnect() {
  socket_ = nullptr;
  return Get(absl::StrCat("/client/disconnect/", id_, "/"));
}

absl::Status Client::GetResource(const std::string& handler, const std::string& type,
                                 const json& arguments) {
  ACCEL_ASSIGN_OR_RETURN(
      const JsonAnswer answer,
      Post("get-resource",
           {{"resource_handler", handler}, {"resource_type", type}, {"args", Encoded(arguments)}}));
  return StatusOf(type, answer);
}

absl::Status Client::ReleaseResource(const std::string& handler) {
  return Get(absl::StrCat("/tracking/", id_, "/release-resource/", handler, "/"));
}

absl::StatusOr<json> Client::Read(const std::string& handler, const std::string& method,
                                  const json& arguments) {
  ACCEL_ASSIGN_OR_RETURN(
      const JsonAnswer answer,
      Post("read-instruction",
           {{"resource_handler", handler}, {"method_name", method}, {"args", Encoded(arguments)}}));
  ACCEL_RETURN_IF_ERROR(StatusOf(method, answer));
  return DecodeTree(answer.response.body);
}

absl::Status Client::Write(const json& instructions) {
  if (socket_ == nullptr) return absl::AbortedError("no socket is open");
  const auto exchange = [&]() -> absl::StatusOr<std::string> {
    ACCEL_RETURN_IF_ERROR(socket_->Send(EncodeTree(instructions)));
    return socket_->Receive();
  };
  const absl::StatusOr<std::string> answer = exchange();
  if (answer.ok() && *answer == "OK") return absl::OkStatus();
  socket_ = nullptr;
  ACCEL_RETURN_IF_ERROR(answer.status());
  ACCEL_ASSIGN_OR_RETURN(const json exception, DecodeTree(*answer));
  return ExceptionStatus("write", exception);
}

absl::Status Client::Get(const std::string& path) {
  ACCEL_ASSIGN_OR_RETURN(const JsonAnswer answer,
                         ExchangeJson(http_.get(), "GET", base_ + path, {}, nullptr));
  return StatusOf(path, answer);
}

absl::StatusOr<JsonAnswer> Client::Post(const std::string& path, const json& body) {
  return ExchangeJson(http_.get(), "POST", absl::StrCat(base_, "/tracking/", id_, "/", path, "/"),
                      {}, body);
}

}  // namespace accel::tracking::aim
