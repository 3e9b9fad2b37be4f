#include "core/engine/distributed/named_gloo.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "core/engine/loop/failure.h"

namespace accel::engine {
namespace {

using c10::ivalue::Future;

// Throws the exception being handled again, behind `name`.
[[noreturn]] void RethrowNamed(const std::string& name) {
  C10_THROW_ERROR(DistBackendError, std::string(StatusOfCurrentException(name).message()));
}

// A collective under way, under its name.
class NamedWork final : public c10d::Work {
 public:
  NamedWork(c10::intrusive_ptr<c10d::Work> work, std::string name)
      : work_(std::move(work)), name_(std::move(name)) {}

  bool isCompleted() override { return work_->isCompleted(); }
  bool isSuccess() const override { return work_->isSuccess(); }
  std::exception_ptr exception() const override { return work_->exception(); }
  std::vector<at::Tensor> result() override { return work_->result(); }
  void synchronize() override { work_->synchronize(); }
  void abort() override { work_->abort(); }
  uint64_t getSequencenumber() const override { return work_->getSequencenumber(); }

  bool wait(std::chrono::milliseconds timeout) override {
    try {
      return work_->wait(timeout);
    } catch (const std::exception&) {
      RethrowNamed(name_);
    }
  }

  c10::intrusive_ptr<Future> getFuture() override {
    const c10::intrusive_ptr<Future> future = work_->getFuture();
    return future->then(
        [name = name_](Future& done) -> c10::IValue {
          try {
            return done.value();
          } catch (const std::exception&) {
            RethrowNamed(name);
          }
        },
        future->elementType());
  }

 private:
  const c10::intrusive_ptr<c10d::Work> work_;
  const std::string name_;
};

c10::intrusive_ptr<c10d::ProcessGroupGloo::Options> GlooOptions(const std::string& address,
                                                                std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupGloo::Options::create(timeout);
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(address));
  return options;
}

}  // namespace

NamedGloo::NamedGloo(const c10::intrusive_ptr<c10d::Store>& store, int rank, int world_size,
                     const std::string& address, std::chrono::milliseconds timeout)
    : ProcessGroupGloo(store, rank, world_size, GlooOptions(address, timeout)), timeout_(timeout) {}

c10::intrusive_ptr<c10d::Work> NamedGloo::broadcast(std::vector<at::Tensor>& tensors,
                                                    const c10d::BroadcastOptions& options) {
  std::string name = NextName("broadcast", tensors.front());
  return c10::make_intrusive<NamedWork>(ProcessGroupGloo::broadcast(tensors, options),
                                        std::move(name));
}

c10::intrusive_ptr<c10d::Work> NamedGloo::allreduce(std::vector<at::Tensor>& tensors,
                                                    const c10d::AllreduceOptions& options) {
  std::string name = NextName("all-reduce", tensors.front());
  return c10::make_intrusive<NamedWork>(ProcessGroupGloo::allreduce(tensors, options),
                                        std::move(name));
}

c10::intrusive_ptr<c10d::Work> NamedGloo::allgather(std::vector<std::vector<at::Tensor>>& outputs,
                                                    std::vector<at::Tensor>& inputs,
                                                    const c10d::AllgatherOptions& options) {
  std::string name = NextName("all-gather", inputs.front());
  return c10::make_intrusive<NamedWork>(ProcessGroupGloo::allgather(outputs, inputs, options),
                                        std::move(name));
}

std::string NamedGloo::NextName(const char* operation, const at::Tensor& tensor) {
  return absl::StrCat(operation, " number ", ++started_, " (", tensor.numel(), " ",
                      c10::toString(tensor.scalar_type()), ", timeout ",
                      absl::FormatDuration(absl::Milliseconds(timeout_.count())), ")");
}

}  // namespace accel::engine
