/** ChatKit's icons, drawn with Lucide's. The rest of Lucide is loaded when an item names one of its icons. */
import type { ChatKitIcon, HeaderIcon, Widgets } from "@openai/chatkit";
import {
  ArrowUp, Atom, Award, Book, BookOpen, Bot, Box, Briefcase, Bug, Calendar, CalendarClock, ChartColumn, ChartLine, Check,
  ChevronDown, ChevronLeft, ChevronRight, Circle, CircleCheck, CircleQuestionMark, CircleUser, Clock, Compass, Copy, Dot,
  Ellipsis, EllipsisVertical, ExternalLink, File, FileText, FlaskConical, Globe, History, IdCard, Image, Images, Info,
  KeyRound, Layers, LifeBuoy, Lightbulb, Mail, Map, MapPin, Menu, Monitor, Moon, Notebook, NotebookPen, Paperclip,
  PartyPopper, Pencil, PenLine, Phone, Play, Plus, RotateCcw, Search, SlidersHorizontal, Smartphone, Sparkle, Sparkles,
  Square, SquareCode, SquarePen, Star, Sun, ThumbsDown, ThumbsUp, Trash2, TriangleAlert, User, X, Zap,
} from "lucide";
import { createElement, useEffect, useState } from "react";

type Drawing = typeof Zap;
type NamedIcon = Exclude<ChatKitIcon, `lucide:${string}`> | Widgets.WidgetIcon;

const CHATKIT: Record<NamedIcon, Drawing> = {
  agent: Bot,
  analytics: ChartLine,
  atom: Atom,
  batch: Layers,
  bolt: Zap,
  "book-clock": CalendarClock,
  "book-closed": Book,
  "book-open": BookOpen,
  bug: Bug,
  calendar: Calendar,
  chart: ChartColumn,
  check: Check,
  "check-circle": CircleCheck,
  "check-circle-filled": CircleCheck,
  "chevron-left": ChevronLeft,
  "chevron-right": ChevronRight,
  "circle-question": CircleQuestionMark,
  clock: Clock,
  compass: Compass,
  confetti: PartyPopper,
  cube: Box,
  desktop: Monitor,
  document: FileText,
  dot: Dot,
  "dots-horizontal": Ellipsis,
  "dots-vertical": EllipsisVertical,
  "empty-circle": Circle,
  "external-link": ExternalLink,
  globe: Globe,
  images: Images,
  info: Info,
  keys: KeyRound,
  lab: FlaskConical,
  lifesaver: LifeBuoy,
  lightbulb: Lightbulb,
  mail: Mail,
  "map-pin": MapPin,
  maps: Map,
  mobile: Smartphone,
  name: IdCard,
  notebook: Notebook,
  "notebook-pencil": NotebookPen,
  "page-blank": File,
  phone: Phone,
  play: Play,
  plus: Plus,
  profile: CircleUser,
  "profile-card": IdCard,
  reload: RotateCcw,
  search: Search,
  "settings-slider": SlidersHorizontal,
  sparkle: Sparkle,
  "sparkle-double": Sparkles,
  "square-code": SquareCode,
  "square-image": Image,
  "square-text": FileText,
  star: Star,
  "star-filled": Star,
  suitcase: Briefcase,
  user: User,
  wreath: Award,
  write: Pencil,
  "write-alt": PenLine,
  "write-alt2": SquarePen,
};

/** The element's own buttons. */
const OWN = {
  alert: TriangleAlert,
  attach: Paperclip,
  close: X,
  compose: SquarePen,
  copy: Copy,
  down: ChevronDown,
  file: File,
  history: History,
  rename: Pencil,
  send: ArrowUp,
  stop: Square,
  trash: Trash2,
  "thumbs-down": ThumbsDown,
  "thumbs-up": ThumbsUp,
};

const HEADER: Partial<Record<HeaderIcon, Drawing>> = { "dark-mode": Moon, "light-mode": Sun, menu: Menu, hamburger: Menu };

const DRAWINGS: Record<string, Drawing> = { ...CHATKIT, ...HEADER, ...OWN, "lucide:triangle-alert": TriangleAlert };
const LUCIDE = "lucide:";
const ALL = "icons.json"; // next to the page; see build.js

export type OwnIcon = keyof typeof OWN;

export function Icon({ name, size = 16 }: { name: string; size?: number }) {
  const known = DRAWINGS[name];
  const loaded = useLucide(known ? null : name);
  return <Drawn drawing={known ?? loaded ?? Circle} name={name} size={size} />;
}

/** An icon of Lucide's whole set; null until it is loaded, and for a name that Lucide does not know. */
function useLucide(name: string | null): Drawing | null {
  const [loaded, setLoaded] = useState<Drawing | null>(null);
  useEffect(() => {
    if (!name?.startsWith(LUCIDE)) return;
    let isCurrent = true;
    void lucideIcon(name.slice(LUCIDE.length)).then((drawing) => isCurrent && setLoaded(drawing));
    return () => void (isCurrent = false);
  }, [name]);
  return loaded;
}

let all: Promise<Record<string, Drawing>> | null = null;

async function lucideIcon(name: string): Promise<Drawing | null> {
  all ??= fetch(ALL).then((response) => response.json() as Promise<Record<string, Drawing>>);
  const exported = name.replaceAll(/(?:^|-)([a-z0-9])/g, (_, first: string) => first.toUpperCase());
  return (await all.catch(() => ({}) as Record<string, Drawing>))[exported] ?? null;
}

function Drawn({ drawing, name, size }: { drawing: Drawing; name: string; size: number }) {
  return (
    <svg
      className="icon"
      data-icon={name}
      viewBox="0 0 24 24"
      width={size}
      height={size}
      fill={name.endsWith("-filled") ? "currentColor" : "none"}
      stroke="currentColor"
      strokeWidth="2"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      {drawing.map(([tag, attributes], at) => createElement(tag, { key: at, ...attributes }))}
    </svg>
  );
}
