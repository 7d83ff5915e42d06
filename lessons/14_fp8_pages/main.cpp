// The program of lesson 14: the same requests with K and V in bf16 and in FP8.

#include "engine.h"
#include "programs/generate.h"

int main(int argc, char** argv) {
  kv::CommandLine command("Generates text with K and V in FP8 pages.");
  kv::GenerateOptions options;
  options.prompts = {};
  int block_size = 16, num_blocks = 0;
  kv::add_generate_options(command, options);
  kv::add_pool_options(command, block_size, num_blocks);
  return kv::run_main(command, argc, argv, [&] {
    const kv::Console console(options.json_file);
    if (options.prompts.empty()) options.prompts = {"Once upon a time"};
    options.kv_dtype = "fp8";
    kv::Model model = kv::load_model(options);
    const auto tokenizer = kv::Tokenizer::load(options.model_dir);
    lesson14::Fp8Engine engine(model, {.block_size = block_size, .num_blocks = num_blocks});
    kv::generate_and_print(console, engine, tokenizer, options,
                           kv::make_requests(options, tokenizer, model.config()));
  });
}
