# Two commands do everything on a fresh Debian 12 with Rust: `make demo` and `make test`.
CARGO ?= cargo
OUT ?= out/demo
COMPARE ?= out/compare
GATE ?= out/gate
LEVEL ?= screen

.PHONY: demo test lint bench compare gate setup clean

demo: setup  ## render a video with known cameras, run the full pipeline on it, say how good the result is
	$(CARGO) build --release
	$(CARGO) run --release --quiet -- demo --out $(OUT) --overwrite

test: setup  ## every test; those on real sequences need TRACKWEAVE_DATA, those of shaders TRACKWEAVE_ADAPTER=llvmpipe or a GPU
	$(CARGO) test --workspace

lint: setup
	$(CARGO) fmt --check
	$(CARGO) clippy --all-targets -- -D warnings
	$(CARGO) clippy --all-targets --no-default-features -- -D warnings

bench: setup  ## times of the kernels on rendered frames (see benches/README.md); results belong into benches/runs/
	$(CARGO) bench --bench throughput

compare: setup $(COMPARE)/python/ready  ## the tracker against OpenCV's; DATA=folder adds real sequences and flow pairs
	$(CARGO) build --release --example klt_dump --example klt_cases --example render_scene
	$(COMPARE)/python/bin/python benches/compare/klt_cases.py --cases $(COMPARE)/cases
	$(COMPARE)/python/bin/python benches/compare/klt_opencv.py $(DATA) --rendered $(COMPARE) --json $(COMPARE)/klt_opencv.json

gate: setup $(GATE)/python/ready  ## the program with one option changed at a time against the truth; LEVEL=map also maps; DATA=folder, ARGS=...
	$(CARGO) build --release --bin trackweave --example render_scene
	$(GATE)/python/bin/python benches/gate/gate.py $(LEVEL) $(if $(DATA),--data $(DATA)) --work $(GATE) $(ARGS)

$(GATE)/python/ready: benches/gate/requirements.txt
	python3 -m venv $(GATE)/python
	$(GATE)/python/bin/pip install -q --disable-pip-version-check -r $<
	touch $@

$(COMPARE)/python/ready: benches/compare/requirements.txt
	python3 -m venv $(COMPARE)/python
	$(COMPARE)/python/bin/pip install -q --disable-pip-version-check -r $<
	touch $@

setup:  ## system packages that are missing (Debian)
	@tools/install-packages.sh

clean:
	$(CARGO) clean
	rm -rf out
